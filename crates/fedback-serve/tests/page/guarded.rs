//! Who may ask, and what a browser is told.

use super::{get, record, send, serve, serve_with};

/// Everything that can be asked for by its address alone.
const PATHS: [&str; 8] = [
    "/",
    "/assets/main.js",
    "/api/runs",
    "/api/runs/0.1",
    "/api/runs/0.1/figure.svg",
    "/api/specs",
    "/api/compare?runs=0.1",
    "/nothing",
];

#[test]
fn every_answer_tells_the_browser_to_trust_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("runs.db");
    record(&store, "plain", &[]);
    let address = serve(&[&store]);
    for path in PATHS {
        let answer = get(address, path);
        for header in [
            "content-security-policy: default-src 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cross-origin-resource-policy: same-origin",
            "cache-control: no-store",
        ] {
            assert!(answer.headers.contains(header), "{path}: no {header} in {}", answer.headers);
        }
        assert!(!answer.headers.contains("access-control-allow"), "{path}");
        assert_eq!(answer.status, if path == "/nothing" { 404 } else { 200 }, "{path}");
    }
    let page = get(address, "/");
    assert!(!page.headers.contains("unsafe-inline"), "{}", page.headers);
    assert!(!page.body.contains("<style") && !page.body.contains("onclick"));
}

#[test]
fn foreign_hosts_and_origins_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let address = serve(&[&folder.path().join("runs.db")]);
    let ask = |headers: &str| {
        let request = format!("GET /api/runs HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
        send(address, &request).status
    };
    let port = address.port();
    assert_eq!(ask(&format!("Host: localhost:{port}\r\n")), 200);
    assert_eq!(ask("Host: evil.example\r\n"), 403);
    assert_eq!(ask(&format!("Host: evil.example:{port}\r\n")), 403);
    let own = format!("Host: 127.0.0.1:{port}\r\n");
    assert_eq!(ask(&format!("{own}Origin: http://127.0.0.1:{port}\r\n")), 200);
    assert_eq!(ask(&format!("{own}Origin: http://evil.example\r\n")), 403);
    assert_eq!(ask(&format!("{own}Origin: null\r\n")), 403);
    assert_eq!(ask(&format!("{own}Sec-Fetch-Site: cross-site\r\n")), 403);
}

#[test]
fn nothing_is_written_through_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("runs.db");
    record(&store, "plain", &[]);
    let address = serve(&[&store]);
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        for path in ["/api/runs", "/api/runs/0.1", "/"] {
            let request = format!(
                "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\n\
                 Connection: close\r\n\r\n"
            );
            assert_eq!(send(address, &request).status, 405, "{method} {path}");
        }
    }
}

#[test]
fn with_a_token_nobody_else_sees_anything() {
    let folder = tempfile::tempdir().unwrap();
    let address = serve_with(&[&folder.path().join("runs.db")], Some("5ecret5ecret"));
    for path in PATHS {
        assert_eq!(get(address, path).status, 401, "{path}");
    }
    let way_in = get(address, "/?token=5ecret5ecret");
    assert_eq!(way_in.status, 303);
    let cookie = way_in.headers.split("set-cookie: ").nth(1).unwrap();
    assert!(cookie.contains("httponly") && cookie.contains("samesite=strict"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    let request = format!(
        "GET /api/runs HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(send(address, &request).status, 200);
}
