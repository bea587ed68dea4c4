#![doc = include_str!("../README.md")]

mod aad;
mod aead;
mod backend;
mod ciphers;
mod compression;
mod derive;
mod door;
#[cfg(feature = "metrics")]
mod export;
#[cfg(not(feature = "metrics"))]
#[path = "no_export.rs"]
mod export;
#[cfg(feature = "cache")]
mod ext;
mod factory;
mod key_text;
mod keyring;
mod layout;
#[cfg(feature = "lz4")]
mod lz4;
mod master_key;
mod names;
mod padding;
mod random;
mod reason;
mod refusal;
mod ring;
mod sealer;
mod secure;
mod settings;
mod subscription;
#[cfg(test)]
mod tests;
mod time;
mod xaes;
#[cfg(feature = "zstd")]
mod zstandard;

pub use backend::SecureBackend;
pub use compression::Compression;
#[cfg(feature = "cache")]
pub use ext::SecureExt;
pub use factory::SecureFactory;
pub use key_text::KeyError;
pub use keyring::{Keyring, KeyringError};
pub use master_key::MasterKey;
pub use padding::Padding;
pub use secure::Secure;
pub use settings::FailMode;
