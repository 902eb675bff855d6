//! A server that is away for a moment: `dev` starts one again that was killed, and another takes over for
//! one that led. What follows something waits for it, and goes on where it was.

use std::time::{Duration, Instant};

use sterna_api::{client::ClientError, rest::Code};

use crate::{clock, out, remote::failed};

/// How long a server may be away.
const AWAY: Duration = Duration::from_secs(30);
/// How often it is tried.
const AGAIN: Duration = Duration::from_millis(100);

/// How long it has been waited for already.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    since: Option<Instant>,
}

impl Patience {
    /// There is an answer again.
    pub(crate) fn heard(&mut self) {
        self.since = None;
    }

    /// Waits a moment, if it may help to try again; says once that it waits.
    ///
    /// # Errors
    /// It would not help, or was tried for long enough.
    pub(crate) async fn bear(&mut self, error: ClientError) -> anyhow::Result<()> {
        let may_help = match &error {
            ClientError::Unreachable { .. } | ClientError::Broken { .. } => true,
            ClientError::Refused(refused) => {
                matches!(refused.code, Code::NotReady | Code::NotLeading | Code::TooMuch)
            }
            ClientError::Silent { .. } | ClientError::NoServer { .. } => false,
        };
        let began = self.since.unwrap_or_else(clock::instant);
        if !may_help || began.elapsed() >= AWAY {
            return Err(failed(error));
        }
        if self.since.is_none() {
            self.since = Some(began);
            let seconds = AWAY.as_secs();
            out::warning(&match &error {
                ClientError::Refused(refused) if refused.code == Code::TooMuch => {
                    format!("{}; waiting, {seconds} s at most", refused.message)
                }
                ClientError::Refused(refused) if refused.code == Code::NotReady => {
                    format!("{}; waiting for it, {seconds} s at most", refused.message)
                }
                ClientError::Refused(_)
                | ClientError::Unreachable { .. }
                | ClientError::Broken { .. }
                | ClientError::Silent { .. }
                | ClientError::NoServer { .. } => {
                    format!("the server does not answer; waiting for it, {seconds} s at most")
                }
            });
        }
        tokio::time::sleep(AGAIN).await;
        Ok(())
    }
}
