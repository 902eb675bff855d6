//! The project's own tool: the gate that every change passes, and the scan that keeps the walls.
//!
//! | file | holds |
//! | --- | --- |
//! | `args.rs` | what may stand after `cargo xtask` |
//! | `cargo.rs`, `run.rs` | how a child process is prepared and followed |
//! | `workspace.rs` | the packages, as cargo describes them |
//! | `screen.rs`, `clock.rs` | the terminal and the one reader of time |
//! | `setup.rs` | the system packages that tests need |
//! | `gate/` | the steps of `cargo xtask test`, in the order in which they run |
//! | `tidy/` | what neither the compiler nor clippy can see |
//!
//! Invariant: it knows the crates only by their manifests and their text. So it builds in seconds
//! and still runs, and says what is wrong, when a crate does not compile.

#![expect(clippy::print_stdout, reason = "a command line tool; what it says is its purpose")]

mod args;
mod cargo;
mod clock;
mod gate;
mod run;
mod screen;
mod setup;
mod tidy;
mod workspace;

use std::{env, process::ExitCode};

use anyhow::Result;

use crate::{args::Request, screen::Screen, workspace::Workspace};

fn main() -> ExitCode {
    match answer() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// Does what was asked for, and says whether all is well.
fn answer() -> Result<bool> {
    let step_names = gate::step_names();
    match args::parse(env::args().skip(1), &step_names)? {
        Request::Help => {
            print!("{}", args::usage(&step_names));
            Ok(true)
        }
        Request::Test(options) => gate::run(&options),
        Request::Tidy => tidy::run(&Workspace::load()?, Screen::detect()),
    }
}

/// Prints the chain of causes; a backtrace of this tool would help nobody.
#[expect(clippy::print_stderr, reason = "what stops the tool itself is no part of its report")]
fn complain(error: &anyhow::Error) {
    eprintln!("error: {error:#}");
}
