//! Certificates for servers with TLS.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// What the server's certificate says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leaf {
    /// It ended years ago.
    Expired,
    /// Of `localhost` and 127.0.0.1, and it is of now.
    #[default]
    Good,
    /// It names another host.
    WrongName,
}

/// A certificate authority of its own and a server's certificate that it signed, as files.
#[derive(Clone, Debug)]
pub struct Certificates {
    directory: Arc<TempDir>,
}

impl Certificates {
    /// New ones.
    #[must_use]
    pub fn new(leaf: Leaf) -> Self {
        let directory = tempfile::Builder::new().prefix("cachekit-tls-").tempdir().expect("a temporary directory");
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.distinguished_name.push(DnType::CommonName, "cachekit test authority");
        let ca_key = KeyPair::generate().expect("ring generates keys");
        let ca_certificate = ca.self_signed(&ca_key).expect("the parameters are complete");
        let issuer = Issuer::new(ca, ca_key);

        let names = match leaf {
            Leaf::WrongName => vec!["elsewhere.invalid".to_owned()],
            Leaf::Expired | Leaf::Good => vec!["localhost".to_owned(), "127.0.0.1".to_owned()],
        };
        let mut server = CertificateParams::new(names).expect("the names are well spelled");
        if leaf == Leaf::Expired {
            server.not_before = date_time_ymd(2020, 1, 1);
            server.not_after = date_time_ymd(2021, 1, 1);
        }
        let key = KeyPair::generate().expect("ring generates keys");
        let certificate = server.signed_by(&key, &issuer).expect("the parameters are complete");

        let write = |name, text: String| std::fs::write(directory.path().join(name), text).expect("it is writable");
        write("ca.pem", ca_certificate.pem());
        write("server.pem", certificate.pem());
        write("server.key", key.serialize_pem());
        Self { directory: Arc::new(directory) }
    }

    /// The file with the authority's certificate, in PEM.
    #[must_use]
    pub fn ca(&self) -> PathBuf {
        self.file("ca.pem")
    }

    /// The file with the server's certificate, in PEM.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.file("server.pem")
    }

    /// The file with the server's key, in PEM.
    #[must_use]
    pub fn key(&self) -> PathBuf {
        self.file("server.key")
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }
}
