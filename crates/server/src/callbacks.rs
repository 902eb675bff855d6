//! Tells whoever asked for it that a task is over: one POST, taken or not.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Uri, header};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::json;
use sterna_engine::control::Callback;
use tokio::{net::TcpStream, time::timeout};

/// How long a receiver may take.
const WITHIN: Duration = Duration::from_secs(10);

/// Calls, and says whether it was taken: any answer but a server's error is.
pub(crate) async fn call(callback: &Callback) -> bool {
    matches!(timeout(WITHIN, post(callback)).await, Ok(Ok(true)))
}

async fn post(callback: &Callback) -> Result<bool, Box<dyn std::error::Error + Send + Sync>> {
    let url: Uri = callback.url.parse()?;
    let host = url.host().ok_or("a callback without a host")?;
    let socket = TcpStream::connect((host, url.port_u16().unwrap_or(80))).await?;
    let (mut send, connection) = http1::handshake(TokioIo::new(socket)).await?;
    // It ends with its one request; its error reaches who waits for the answer.
    let connection = tokio::spawn(async move { drop(connection.await) });
    let body = json!({
        "key": callback.key.to_string(),
        "incarnation": callback.incarnation.to_string(),
        "end": crate::views::end_view(&callback.end),
    });
    let path = url.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let request = Request::post(path)
        .header(header::HOST, url.authority().map_or(host, http::uri::Authority::as_str))
        .header(header::CONTENT_TYPE, "application/json")
        // With the same key it is the same call.
        .header("idempotency-key", callback.incarnation.to_string())
        .body(Full::new(Bytes::from(body.to_string())))?;
    let answer = send.send_request(request).await;
    connection.abort();
    Ok(!answer?.status().is_server_error())
}
