//! `sterna dev` with real processes: commands as people type them, and what becomes of everything when
//! something is killed.

mod api;
mod applied;
mod bounds;
mod calls_back;
mod commands;
mod crashes;
mod crowd;
mod deaths;
mod endpoints;
mod halfway;
mod heavy;
mod history;
mod images;
mod kept_events;
mod large;
mod lines;
mod named;
mod odd;
mod once;
mod passed_on;
mod place;
mod printed;
mod restored;
mod rotated;
mod said;
mod same_name;
mod services;
mod slow;
mod storm;
mod taken;
mod terminal;
mod users;
mod whole;
mod why;
mod workers;
