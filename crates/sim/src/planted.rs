//! Mistakes that are put in on purpose: the list is the model's, the stand-ins here make some.

#[cfg(feature = "planted")]
pub use sterna_model::planted::plant;
pub use sterna_model::planted::{Mistake, is_planted};
