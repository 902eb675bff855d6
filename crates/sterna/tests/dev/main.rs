//! `sterna dev` with real processes: commands as people type them, and what becomes of everything when
//! something is killed.

mod commands;
mod deaths;
mod place;
mod storm;
