//! Mistakes that are put in on purpose, to show that the checks of this crate bite.

#[cfg(feature = "planted")]
pub use sterna_model::planted::plant;
pub use sterna_model::planted::{Mistake, is_planted};
