//! Who may ask, and what a browser is told to refuse.
//!
//! Any page on the web can make a browser send requests here, and a name that its owner points at
//! 127.0.0.1 makes them look like this page's own. Therefore the host that was asked for must be an
//! address or a name that the user gave, a request must come from this page or from nobody's, and
//! where others can reach the address at all, they must know the token.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use fedback_lab::error::Error;

use crate::answer::Refusal;

/// Only what this server sent may run, load or be shown; nobody may frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

const HEADERS: [(&str, &str); 6] = [
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cache-control", "no-store"),
];

/// What is asked of every request.
#[derive(Clone, Debug)]
pub struct Guard {
    /// Names besides addresses and localhost.
    pub hosts: Vec<String>,
    /// What whoever asks must know.
    pub token: Option<String>,
    /// The port, by which the cookies of several servers are told apart.
    pub port: u16,
}

/// A token that nobody guesses.
pub fn new_token() -> Result<String, Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::Failed(format!("the system gives no random numbers: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Lets a request through, or says why not; marks every answer.
pub async fn check(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let mut response = match guard.admit(request.headers(), request.uri()) {
        Ok(None) => next.run(request).await,
        Ok(Some(welcome)) => welcome,
        Err(refusal) => refusal.into_response(),
    };
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

impl Guard {
    /// Nothing where a request may pass; a way in for who brings the token.
    fn admit(&self, headers: &HeaderMap, uri: &Uri) -> Result<Option<Response>, Refusal> {
        let forbidden = |words: String| Refusal::new(StatusCode::FORBIDDEN, words);
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let host = text(header::HOST).unwrap_or_default();
        if !self.is_ours(host) {
            let why = "this host is not the server's; open it by its address, or start it with \
                       --host NAME";
            return Err(forbidden(why.into()));
        }
        let own = |origin: &str| {
            let rest = origin.strip_prefix("http://").or(origin.strip_prefix("https://"));
            rest.is_some_and(|rest| rest.eq_ignore_ascii_case(host))
        };
        if headers.contains_key(header::ORIGIN) && !text(header::ORIGIN).is_some_and(own) {
            return Err(forbidden("another page asks, which may not".into()));
        }
        // A link from elsewhere may open the page; what it shows is asked for by itself alone.
        let site = text(header::HeaderName::from_static("sec-fetch-site"));
        if uri.path() != "/" && matches!(site, Some("cross-site" | "same-site")) {
            return Err(forbidden("another page asks, which may not".into()));
        }
        let Some(token) = &self.token else { return Ok(None) };
        let given = query(uri, "token");
        if let Some(given) = given.filter(|_| uri.path() == "/") {
            return match same(given, token) {
                true => Ok(Some(self.welcome(token))),
                false => Err(forbidden("this is not the token; look where the server runs".into())),
            };
        }
        match self.has_token(headers, token) {
            true => Ok(None),
            false => {
                let why = "the token is missing: open the address that the server has printed";
                Err(Refusal::new(StatusCode::UNAUTHORIZED, why))
            }
        }
    }

    /// Whether a host is an address, this machine or a name that the user gave. The port may be
    /// another: tunnels have their own.
    fn is_ours(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host.rsplit_once(':').map_or(host, |(name, _)| name),
        };
        let known = |own: &String| own.eq_ignore_ascii_case(name);
        name.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(known)
    }

    fn has_token(&self, headers: &HeaderMap, token: &str) -> bool {
        let values = |name| headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        let cookie = format!("{}=", self.cookie());
        let cookies = values(header::COOKIE).flat_map(|line| line.split(';'));
        let mut cookies = cookies.filter_map(|pair| pair.trim().strip_prefix(&cookie));
        let mut bearers =
            values(header::AUTHORIZATION).filter_map(|value| value.strip_prefix("Bearer "));
        cookies.any(|given| same(given, token)) || bearers.any(|given| same(given, token))
    }

    /// From now on the browser has the token, and the address no longer shows it.
    fn welcome(&self, token: &str) -> Response {
        let cookie = format!("{}={token}; HttpOnly; SameSite=Strict; Path=/", self.cookie());
        let headers = [(header::LOCATION, "/".to_owned()), (header::SET_COOKIE, cookie)];
        (StatusCode::SEE_OTHER, headers).into_response()
    }

    fn cookie(&self) -> String {
        format!("fedback-{}", self.port)
    }
}

fn query<'a>(uri: &'a Uri, key: &str) -> Option<&'a str> {
    let pairs = uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(own, _)| *own == key).map(|(_, value)| value).next()
}

/// Takes as long whichever letter is wrong.
fn same(given: &str, token: &str) -> bool {
    let differs = given.bytes().zip(token.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    given.len() == token.len() && differs == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(token: Option<&str>) -> Guard {
        Guard { hosts: vec!["lab.example".into()], token: token.map(String::from), port: 7878 }
    }

    fn status(guard: &Guard, path: &'static str, headers: &[(&'static str, &str)]) -> u16 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        match guard.admit(&map, &Uri::from_static(path)) {
            Ok(None) => 200,
            Ok(Some(response)) => response.status().as_u16(),
            Err(refusal) => refusal.into_response().status().as_u16(),
        }
    }

    #[test]
    fn only_addresses_and_known_names_are_hosts() {
        let guard = guard(None);
        let hosts = ["127.0.0.1:7878", "localhost:9000", "[::1]:7878", "10.0.0.3", "lab.example:1"];
        for host in hosts {
            assert_eq!(status(&guard, "/api/runs", &[("host", host)]), 200, "{host}");
        }
        for host in ["evil.example:7878", "localhost.evil.example", "", "127.0.0.1.nip.io"] {
            assert_eq!(status(&guard, "/", &[("host", host)]), 403, "{host}");
        }
    }

    #[test]
    fn another_page_is_refused() {
        let guard = guard(None);
        let host = ("host", "localhost:7878");
        let ask = |name, value| status(&guard, "/api/runs", &[host, (name, value)]);
        assert_eq!(ask("origin", "http://localhost:7878"), 200);
        for origin in ["http://evil.example", "null", "http://localhost:7879", "localhost:7878"] {
            assert_eq!(ask("origin", origin), 403, "{origin}");
        }
        assert_eq!(
            (ask("sec-fetch-site", "same-origin"), ask("sec-fetch-site", "none")),
            (200, 200)
        );
        assert_eq!(ask("sec-fetch-site", "cross-site"), 403);
        assert_eq!(status(&guard, "/", &[host, ("sec-fetch-site", "cross-site")]), 200);
    }

    #[test]
    fn the_token_is_taken_from_the_address_once_then_from_a_cookie() {
        let guard = guard(Some("5ecret"));
        let host = ("host", "10.0.0.3:7878");
        assert_eq!(status(&guard, "/", &[host]), 401);
        assert_eq!(status(&guard, "/?token=wrong", &[host]), 403);
        assert_eq!(status(&guard, "/?token=5ecret", &[host]), 303);
        assert_eq!(status(&guard, "/api/runs?token=5ecret", &[host]), 401);
        assert_eq!(
            status(&guard, "/api/runs", &[host, ("cookie", "a=b; fedback-7878=5ecret")]),
            200
        );
        assert_eq!(status(&guard, "/api/runs", &[host, ("cookie", "fedback-1=5ecret")]), 401);
        assert_eq!(status(&guard, "/api/runs", &[host, ("authorization", "Bearer 5ecret")]), 200);
        assert_eq!(status(&guard, "/api/runs", &[host, ("authorization", "Bearer 5ecre")]), 401);
    }
}
