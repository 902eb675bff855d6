//! The control core among workers that do as they are told, unless a test says otherwise.

mod awaited;
mod calls;
mod duties;
mod evacuation;
mod forecast;
mod gathering;
mod holes;
mod leaders;
mod out_of_reach;
mod past;
mod plan;
mod play;
mod random;
mod readiness;
mod reports;
mod services;
mod starting;
mod sweep;
mod tasks;
mod told;
mod torn;
mod updates;
mod why;
