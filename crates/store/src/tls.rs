//! Whom to believe when a server shows its certificate, and what to show it.

use std::{path::PathBuf, sync::Arc};

use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};

use crate::{BoxError, OpenError};

/// What a certificate must show, and the file of roots, or the system's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Nothing: encrypted, but to whom is not known.
    Anyone,
    /// That one of the roots stands behind it.
    Issuer(Option<PathBuf>),
    /// Also that it is the host's own.
    Name(Option<PathBuf>),
}

/// What we show to a server that asks who we are: a certificate with those behind it, and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    certificate: PathBuf,
    key: PathBuf,
}

impl Identity {
    /// Of two options of a URL, or what is wrong with them.
    pub(crate) fn of(
        certificate: Option<PathBuf>,
        key: Option<PathBuf>,
    ) -> Result<Option<Self>, &'static str> {
        match (certificate, key) {
            (Some(certificate), Some(key)) => Ok(Some(Self { certificate, key })),
            (None, None) => Ok(None),
            (Some(_), None) | (None, Some(_)) => {
                Err("write both sslcert=FILE and sslkey=FILE, or none of them")
            }
        }
    }
}

/// Said of a URL that names a certificate for connections that show none.
pub(crate) const NOT_SHOWN: &str =
    "sslcert and sslkey are shown only over TLS; write sslmode=verify-full too";

/// How connections are encrypted. The one place that chooses a provider.
pub(crate) fn config(
    trust: &Trust,
    identity: Option<&Identity>,
) -> Result<ClientConfig, OpenError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("ring has the cipher suites of TLS 1.2 and 1.3");
    let config = match trust {
        Trust::Anyone => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Lenient { provider, issuer: None })),
        Trust::Issuer(path) => {
            let issuer = WebPkiServerVerifier::builder_with_provider(
                Arc::new(roots(path.as_ref())?),
                Arc::clone(&provider),
            );
            let issuer = Some(issuer.build().map_err(|error| unusable(path.as_ref(), error))?);
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Lenient { provider, issuer }))
        }
        Trust::Name(path) => builder.with_root_certificates(roots(path.as_ref())?),
    };
    let Some(Identity { certificate, key }) = identity else {
        return Ok(config.with_no_client_auth());
    };
    let unusable = |file: &PathBuf, source: BoxError| OpenError::Identity {
        file: file.display().to_string(),
        source,
    };
    let chain = certificates(certificate).map_err(|error| unusable(certificate, error))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, error.into()))?;
    config.with_client_auth_cert(chain, secret).map_err(|error| unusable(key, error.into()))
}

/// Whether this cause is a server's complaint of what we showed it, or that we showed nothing.
pub(crate) fn is_identity_refused(cause: &(dyn std::error::Error + 'static)) -> bool {
    // By its words: some libraries keep only those of the errors that they pass on.
    let said = cause.to_string();
    [
        AlertDescription::CertificateRequired,
        AlertDescription::BadCertificate,
        AlertDescription::UnsupportedCertificate,
        AlertDescription::CertificateRevoked,
        AlertDescription::CertificateExpired,
        AlertDescription::CertificateUnknown,
        AlertDescription::UnknownCA,
        // One of a name that it knows, signed by somebody else.
        AlertDescription::DecryptError,
    ]
    .into_iter()
    .any(|alert| said == Error::AlertReceived(alert).to_string())
}

/// All certificates of a file; there is one at least.
fn certificates(path: &PathBuf) -> Result<Vec<CertificateDer<'static>>, BoxError> {
    let all = CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>()?;
    if all.is_empty() { Err("it holds no certificate".into()) } else { Ok(all) }
}

fn roots(path: Option<&PathBuf>) -> Result<RootCertStore, OpenError> {
    let mut roots = RootCertStore::empty();
    match path {
        Some(path) => {
            for certificate in certificates(path).map_err(|error| unusable(Some(path), error))? {
                roots.add(certificate).map_err(|error| unusable(Some(path), error))?;
            }
        }
        None => {
            // One damaged certificate among the system's many is no reason to trust none.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        return Err(unusable(path, "it holds no certificate"));
    }
    Ok(roots)
}

fn unusable(path: Option<&PathBuf>, source: impl Into<BoxError>) -> OpenError {
    let file = path.map_or("of this system".to_owned(), |path| format!("in {}", path.display()));
    OpenError::Roots { file, source: source.into() }
}

/// Checks that the server holds its certificate's key, and the issuer if there is one; the name
/// is not looked at.
#[derive(Debug)]
struct Lenient {
    provider: Arc<CryptoProvider>,
    issuer: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(issuer) = &self.issuer else { return Ok(ServerCertVerified::assertion()) };
        let verified =
            issuer.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // The name is judged last: whoever fails by it alone has a good issuer.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
