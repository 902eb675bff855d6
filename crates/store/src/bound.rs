//! How long a call to a server may take, whatever becomes of its steps.

use std::time::Duration;

use tokio::time::timeout;

use crate::{BoxError, StoreError};

/// By when every call is answered. The steps of a call have shorter bounds, which say better what
/// was met; this one is for steps that each take their time and are many.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(15);

/// The answer to a call that changes nothing; `overdue` says what is amiss if it does not come.
pub(crate) async fn asked<T>(
    limit: Duration,
    overdue: impl Into<BoxError>,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    timeout(limit, call).await.unwrap_or_else(|_| Err(StoreError::Unavailable(overdue.into())))
}

/// The answer to a call that changes something. One that is not waited for may have done so, or
/// may yet.
pub(crate) async fn told<T>(
    limit: Duration,
    overdue: impl Into<BoxError>,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    timeout(limit, call).await.unwrap_or_else(|_| Err(StoreError::Unknown(overdue.into())))
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    const SOON: Duration = Duration::from_millis(1);

    #[tokio::test]
    async fn a_call_that_never_ends_is_answered_by_what_may_have_become_of_it() {
        let asked = asked::<()>(SOON, "late", pending()).await;
        assert!(matches!(asked, Err(StoreError::Unavailable(_))), "{asked:?}");
        let told = told::<()>(SOON, "late", pending()).await;
        assert!(matches!(told, Err(StoreError::Unknown(_))), "{told:?}");
    }
}
