//! What Prometheus asks for: `GET /metrics` on 127.0.0.1.
//!
//! [`families`] makes the figures of all captures into metrics; [`proto`] tells them with native
//! histograms ([`native`]) to who accepts them, [`text`] with classic ones to everybody else.

mod families;
mod native;
mod proto;
mod text;

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HOST, HeaderMap};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

use super::captures::Captures;

/// Who is connected at once; others wait.
const CONNECTIONS: usize = 16;
/// Longest life of a connection: Prometheus comes again.
const LIFE: Duration = Duration::from_secs(300);
/// Longest wait for the head of a request.
const HEAD: Duration = Duration::from_secs(10);

/// Listens on loopback.
///
/// # Errors
/// The port is taken.
pub(super) async fn listen(port: u16) -> Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
    let listener = listener.with_context(|| {
        format!("cannot listen on port {port} of 127.0.0.1 (--port N, --no-metrics)")
    })?;
    let address = listener.local_addr().context("the port")?;
    Ok((listener, address))
}

/// Serves for good.
pub(super) async fn serve(listener: TcpListener, captures: Rc<Captures>) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(free) = connections.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let captures = captures.clone();
                spawn_local(async move {
                    // Longer, or broken off: who asked comes again.
                    let _ = timeout(LIFE, connection(stream, captures)).await;
                    drop(free);
                });
            }
            // Out of descriptors, as a rule: not in a circle.
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn connection(stream: TcpStream, captures: Rc<Captures>) -> hyper::Result<()> {
    let answer = service_fn(move |request| {
        let captures = captures.clone();
        async move { Ok::<_, Infallible>(answer(&request, &captures).await) }
    });
    hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(stream), answer)
        .await
}

async fn answer(request: &Request<Incoming>, captures: &Captures) -> Response<Full<Bytes>> {
    if !asks_us(request.headers()) {
        return plain(StatusCode::MISDIRECTED_REQUEST, "this is 127.0.0.1\n");
    }
    match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => {}
        (_, "/metrics") => {
            let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "GET only\n");
            let allowed = hyper::header::HeaderValue::from_static("GET, HEAD");
            refused.headers_mut().insert(ALLOW, allowed);
            return refused;
        }
        _ => return plain(StatusCode::NOT_FOUND, "the metrics are at /metrics\n"),
    }
    let families = families::of(captures).await;
    let (kind, body) = match wants_protobuf(request.headers()) {
        true => (proto::CONTENT_TYPE, proto::write(&families)),
        false => (text::CONTENT_TYPE, text::write(&families).into_bytes()),
    };
    of_kind(StatusCode::OK, kind, body)
}

fn plain(status: StatusCode, body: &str) -> Response<Full<Bytes>> {
    of_kind(
        status,
        "text/plain; charset=utf-8",
        body.as_bytes().to_vec(),
    )
}

fn of_kind(status: StatusCode, kind: &'static str, body: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let kind = hyper::header::HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// A page of somewhere else whose name has come to mean 127.0.0.1 must not read us through a browser.
fn asks_us(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST) else {
        return true;
    };
    let host = host.to_str().unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    matches!(name, "127.0.0.1" | "localhost")
}

/// Whether the protobuf form is liked at least as well as text. Prometheus names it first, and with the
/// higher weight, when native histograms are wanted.
fn wants_protobuf(headers: &HeaderMap) -> bool {
    let accepted = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|v| v.to_str().ok());
    let (mut protobuf, mut text) = (0.0, 0.0);
    for range in accepted.flat_map(|line| line.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let parts: Vec<&str> = parts.collect();
        let weight = parts.iter().find_map(|p| p.strip_prefix("q="));
        let weight = weight.map_or(1.0, |q| q.parse::<f32>().unwrap_or(0.0));
        let delimited = parts.contains(&"encoding=delimited")
            && parts.contains(&"proto=io.prometheus.client.MetricFamily");
        match kind.as_str() {
            "application/vnd.google.protobuf" if delimited => protobuf = weight.max(protobuf),
            "text/plain" | "text/*" | "*/*" => text = weight.max(text),
            _ => {}
        }
    }
    protobuf > 0.0 && protobuf >= text
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn accepting(accept: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_str(accept).expect("a value"));
        headers
    }

    #[test]
    fn protobuf_is_for_who_likes_it_best() {
        // What Prometheus 2.42 sends with native histograms, and without.
        let native = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
                      encoding=delimited,application/openmetrics-text;version=1.0.0;q=0.8,\
                      text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let usual = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;\
                     version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert!(wants_protobuf(&accepting(native)));
        for text in [
            usual,
            "*/*",
            "text/html,*/*;q=0.8",
            "application/vnd.google.protobuf",
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
             encoding=delimited;q=0.2,text/plain",
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
             encoding=delimited;q=0",
            ";;q=,",
        ] {
            assert!(!wants_protobuf(&accepting(text)), "{text}");
        }
        assert!(!wants_protobuf(&HeaderMap::new()));
    }

    #[test]
    fn a_name_that_is_not_ours_is_not_answered() {
        let host = |name: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_str(name).expect("a value"));
            asks_us(&headers)
        };
        assert!(host("127.0.0.1:9871") && host("localhost") && host("localhost:1"));
        assert!(asks_us(&HeaderMap::new()));
        assert!(!host("evil.example:9871") && !host("127.0.0.1.evil.example") && !host(""));
    }
}
