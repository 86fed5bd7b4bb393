//! `fedback serve`.

use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use fedback_serve::{Server, Settings, new_token};

use super::Context;
use crate::args::ServeArgs;
use crate::lab::error::Error;
use crate::lab::spec::Document;
use crate::output;

/// Programs that open a page, the first that is there.
const OPENERS: [&str; 3] = ["xdg-open", "open", "sensible-browser"];

pub fn run(context: &Context, args: ServeArgs) -> Result<(), Error> {
    let stores = match args.stores.is_empty() {
        true => context.store().map(PathBuf::from).into_iter().collect(),
        false => args.stores,
    };
    // A spec that cannot be read is said before there is a page.
    args.specs.iter().try_for_each(|path| Document::read(path).map(drop))?;
    if let Some(token) = args.token.as_deref().filter(|token| !is_word(token)) {
        let why = "allowed: letters, digits, - and _, at least 8 of them";
        return Err(Error::input("--token", format!("found {} letters; {why}", token.len())));
    }
    let token = match args.token {
        None if !is_local(&args.listen) => Some(new_token()?),
        given => given,
    };
    let settings =
        Settings { stores, specs: args.specs, listen: args.listen, token, hosts: args.hosts };
    let server = Server::bind(settings)?;
    let link = server.link();
    output::print(&format!("{link}\n"))?;
    if !server.address().ip().is_loopback() {
        context.warn(
            "others can reach this address: whoever knows the token sees all runs, and nothing \
             is encrypted; behind a proxy with TLS it would be",
        );
    }
    if args.open {
        open(context, &link);
    }
    server.serve()
}

fn is_local(listen: &str) -> bool {
    let found = listen.to_socket_addrs();
    found.is_ok_and(|mut found| found.all(|address| address.ip().is_loopback()))
}

/// Whether a token can stand in an address and in a cookie.
fn is_word(token: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    token.len() >= 8 && token.chars().all(plain)
}

fn open(context: &Context, link: &str) {
    let start = |opener: &&str| {
        let mut command = Command::new(opener);
        command.arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().is_ok()
    };
    if !OPENERS.iter().any(start) {
        context.warn("no program was found that opens pages; open it by hand");
    }
}
