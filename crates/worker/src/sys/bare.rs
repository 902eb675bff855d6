//! The floor of the bench: what a process costs when nothing is done for it.

use std::{ffi::CString, io, ptr};

/// Starts a program without arguments, and waits for its end.
///
/// # Errors
/// It cannot be started, or did not end well.
pub(crate) fn spawn_and_wait(program: &str) -> io::Result<()> {
    let program = CString::new(program).map_err(io::Error::other)?;
    let arguments = [program.as_ptr().cast_mut(), ptr::null_mut()];
    let environment = [ptr::null_mut()];
    let mut pid = 0;
    let mut status = 0;
    // SAFETY: both lists are ended by a null and outlive the call; the numbers are of this frame.
    unsafe {
        let error = libc::posix_spawn(
            &raw mut pid,
            program.as_ptr(),
            ptr::null(),
            ptr::null(),
            arguments.as_ptr(),
            environment.as_ptr(),
        );
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        if libc::waitpid(pid, &raw mut status, 0) != pid {
            return Err(io::Error::last_os_error());
        }
    }
    if status == 0 { Ok(()) } else { Err(io::Error::other(format!("wait status {status}"))) }
}
