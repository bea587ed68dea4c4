//! The checks, by what they are about. A check concludes nothing that its sentence of the contract does not say.

pub(crate) mod batch;
pub(crate) mod cancellation;
pub(crate) mod clear;
pub(crate) mod concurrency;
pub(crate) mod entries;
pub(crate) mod keys;
pub(crate) mod lifecycle;
pub(crate) mod locks;
pub(crate) mod messages;
pub(crate) mod rounding;
pub(crate) mod touch;
pub(crate) mod tracking;
pub(crate) mod ttl;
pub(crate) mod values;
