//! The reference keeps the contract.

use std::sync::Arc;

use sterna_store::{Memory, Store};

async fn open() -> Arc<dyn Store> {
    Arc::new(Memory::new())
}

sterna_store::conformance!(open());
