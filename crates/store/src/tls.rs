//! Whom to believe when a server shows its certificate.

use std::{path::PathBuf, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
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

/// How connections are encrypted. The one place that chooses a provider.
pub(crate) fn config(trust: &Trust) -> Result<ClientConfig, OpenError> {
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
    Ok(config.with_no_client_auth())
}

fn roots(path: Option<&PathBuf>) -> Result<RootCertStore, OpenError> {
    let mut roots = RootCertStore::empty();
    match path {
        Some(path) => {
            let file = CertificateDer::pem_file_iter(path);
            for certificate in file.map_err(|error| unusable(Some(path), error))? {
                let certificate = certificate.map_err(|error| unusable(Some(path), error))?;
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
