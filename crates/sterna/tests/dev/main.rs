//! `sterna dev` with real processes: commands as people type them, and what becomes of everything when
//! something is killed.

mod api;
mod commands;
mod crashes;
mod crowd;
mod deaths;
mod history;
mod images;
mod once;
mod place;
mod restored;
mod said;
mod services;
mod storm;
mod taken;
mod terminal;
mod whole;
mod why;
