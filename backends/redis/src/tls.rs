//! Encrypted connections.

use crate::RedisConfig;
use redis::{Client, ClientTlsConfig, ConnectionInfo, RedisResult, TlsCertificates};
use std::path::Path;

/// A client, which reads the files of certificates now: they may have been renewed since the last dial.
pub(crate) fn open(config: &RedisConfig, info: ConnectionInfo) -> RedisResult<Client> {
    if !config.tls.on {
        return Client::open(info);
    }
    install_provider();
    Client::build_with_tls(info, certificates(config)?)
}

pub(crate) fn certificates(config: &RedisConfig) -> RedisResult<TlsCertificates> {
    let root_cert = config.tls.ca.as_deref().map(read).transpose()?;
    let client_tls = match &config.tls.client {
        Some((certificate, key)) => Some(ClientTlsConfig { client_cert: read(certificate)?, client_key: read(key)? }),
        None => None,
    };
    Ok(TlsCertificates { client_tls, root_cert })
}

/// The driver panics when the process has none. One that the application installed stays.
pub(crate) fn install_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn read(file: &Path) -> RedisResult<Vec<u8>> {
    std::fs::read(file).map_err(|error| {
        let why = format!("{}: {error}", file.display());
        (redis::ErrorKind::InvalidClientConfig, "a certificate cannot be read", why).into()
    })
}
