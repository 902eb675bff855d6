//! The control core among workers that do as they are told, unless a test says otherwise.

mod awaited;
mod calls;
mod duties;
mod evacuation;
mod forecast;
mod gathering;
mod holes;
mod leaders;
mod moved;
mod out_of_reach;
mod past;
mod plan;
mod play;
mod random;
mod readiness;
mod reports;
mod room;
mod services;
mod starting;
mod sweep;
mod tasks;
mod told;
mod torn;
mod unwanted;
mod updates;
mod why;
