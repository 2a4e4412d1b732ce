// SPDX-License-Identifier: Apache-2.0
//! The HTTP check: send a request, judge the status line as soon as it is complete.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::failure::Failure;
use super::parting::Parting;
use super::progress::{Progress, Stage};
use crate::config::HttpSpec;

/// Bytes read before a probe gives up, including interim responses.
const MAX_READ_BYTES: usize = 8192;
/// Size of the first buffer, enough for most answers with all headers.
const FIRST_READ_BYTES: usize = 512;
/// Bytes that are parsed at once to detect garbage; longer lines once they are complete.
const EARLY_LOOK_BYTES: usize = 16;

/// Judgement of the bytes received so far.
#[derive(Debug, PartialEq, Eq)]
enum Judgement {
    /// More bytes are needed.
    More,
    /// A final status code.
    Status(u16),
    /// Not HTTP.
    Malformed(&'static str),
}

/// Send the request of a check and judge the answer.
pub(super) async fn talk(
    mut stream: TcpStream,
    check: &HttpSpec,
    progress: &mut Progress,
) -> Result<(), Failure> {
    progress.stage = Stage::Send;
    stream
        .write_all(&check.request)
        .await
        .map_err(|e| Failure::of(e, Stage::Send))?;
    progress.stage = Stage::Receive;
    progress.note(|| sent(check));
    // Wait before allocating: a waiting probe needs no buffer.
    stream
        .readable()
        .await
        .map_err(|e| Failure::of(e, Stage::Receive))?;
    let mut answer = Answer::default();
    loop {
        let room = answer.room();
        let read = (&mut stream)
            .take(room)
            .read_buf(&mut answer.data)
            .await
            .map_err(|e| Failure::of(e, Stage::Receive))?;
        if read == 0 {
            return Err(Failure::Closed(Stage::Receive));
        }
        if let Some(result) = answer.look(check, progress) {
            if says_status(&result) {
                progress.parting = Some(Parting::plain(stream));
            }
            return result;
        }
    }
}

/// Whether the server has answered, so that it may finish its answer.
pub(super) fn says_status(result: &Result<(), Failure>) -> bool {
    matches!(result, Ok(()) | Err(Failure::BadStatus(_)))
}

/// The request line, for display.
pub(super) fn sent(check: &HttpSpec) -> String {
    let line = check.request.split(|b| *b == b'\r').next();
    format!("sent {}", String::from_utf8_lossy(line.unwrap_or_default()))
}

/// The answer received so far.
pub(super) struct Answer {
    /// Received bytes; append at most [`Self::room`].
    pub(super) data: Vec<u8>,
}

impl Default for Answer {
    fn default() -> Self {
        let data = Vec::with_capacity(FIRST_READ_BYTES);
        Self { data }
    }
}

impl Answer {
    /// Number of bytes that may still be read.
    pub(super) fn room(&self) -> u64 {
        (MAX_READ_BYTES - self.data.len()) as u64
    }

    /// The result, once it is certain.
    pub(super) fn look(
        &self,
        check: &HttpSpec,
        progress: &mut Progress,
    ) -> Option<Result<(), Failure>> {
        match judge(&self.data, check) {
            Judgement::Status(code) => {
                progress.detail = code;
                progress.note(|| format!("status {code}"));
                Some(if check.expects(code) {
                    Ok(())
                } else {
                    Err(Failure::BadStatus(code))
                })
            }
            Judgement::Malformed(what) => Some(Err(Failure::Malformed(what))),
            Judgement::More if self.room() == 0 => {
                Some(Err(Failure::Malformed("no status line in 8192 bytes")))
            }
            Judgement::More => None,
        }
    }
}

/// Judge all bytes received so far.
fn judge(mut data: &[u8], check: &HttpSpec) -> Judgement {
    loop {
        // Empty lines before an answer are tolerated, as by other clients.
        let blank = data.iter().take_while(|b| matches!(b, b'\r' | b'\n'));
        data = &data[blank.count()..];
        let Some(end) = data.iter().position(|b| *b == b'\n') else {
            let beginning = &data[..data.len().min(EARLY_LOOK_BYTES)];
            return match parse_line(beginning) {
                Err(what) => Judgement::Malformed(what),
                Ok(_) => Judgement::More,
            };
        };
        let code = match parse_line(&data[..=end]) {
            Ok(Some(code)) => code,
            Ok(None) => return Judgement::Malformed("status line"),
            Err(what) => return Judgement::Malformed(what),
        };
        // 100 Continue and 103 Early Hints come before the answer.
        if !(100..200).contains(&code) || code == 101 || check.expects(code) {
            return Judgement::Status(code);
        }
        match end_of_headers(&data[end + 1..]) {
            Some(length) => data = &data[end + 1 + length..],
            None => return Judgement::More,
        }
    }
}

/// The status code of a line; `None` if the line is still too short.
fn parse_line(line: &[u8]) -> Result<Option<u16>, &'static str> {
    let mut answer = httparse::Response::new(&mut []);
    match answer.parse(line) {
        Ok(_) => Ok(answer.code),
        Err(httparse::Error::Version) => Err("not HTTP/1.0 or 1.1"),
        Err(httparse::Error::Status) => Err("status line"),
        Err(_) => Err("answer"),
    }
}

/// Offset of the end of the headers, after an empty line.
fn end_of_headers(data: &[u8]) -> Option<usize> {
    let mut start = 0;
    loop {
        let length = data[start..].iter().position(|b| *b == b'\n')? + 1;
        if matches!(&data[start..start + length], b"\n" | b"\r\n") {
            return Some(start + length);
        }
        start += length;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::{CodeRange, Method, Version};

    fn check(first: u16, last: u16) -> HttpSpec {
        HttpSpec::new(
            "198.18.0.1:80".parse().unwrap(),
            Method::Get,
            "/",
            Version::Http10,
            None,
            vec![CodeRange { first, last }],
        )
    }

    fn judgement(text: &str) -> Judgement {
        judge(text.as_bytes(), &check(200, 200))
    }

    #[test]
    fn whole_status_lines() {
        for (text, code) in [
            ("HTTP/1.0 200 OK\r\n", 200),
            ("HTTP/1.1 503 Service Unavailable\r\nX:", 503),
            ("HTTP/1.1 204\r\n", 204),
            ("HTTP/1.1 404 \r\n", 404),
            ("HTTP/1.1 200 OK\n", 200),
            ("\r\nHTTP/1.1 200 OK\r\n", 200),
            ("HTTP/1.1 200 OK\r\n\x01bad header\r\n", 200),
            ("HTTP/1.1 999 x\r\n", 999),
            ("HTTP/1.1 101 Switching\r\n", 101),
        ] {
            assert_eq!(judgement(text), Judgement::Status(code), "{text:?}");
        }
    }

    #[test]
    fn cut_status_lines() {
        let line = "HTTP/1.1 200 OK\r\n";
        for end in 0..line.len() {
            assert_eq!(judgement(&line[..end]), Judgement::More, "{end}");
        }
    }

    #[test]
    fn no_status_lines() {
        for text in [
            "SSH-2.0-OpenSSH_9.2\r\n",
            "220 mail.example ESMTP\r\n",
            "\x15\x03\x01\x00\x02\x02\x46",
            "HTTP/2.0 200 OK\r\n",
            "HTTP/1.1 20 OK\r\n",
            "HTTP/1.1 2000 OK\r\n",
            "HTTP/1.1 abc OK\r\n",
            "HTTP/1.1\r\n",
            "<html>",
        ] {
            let judgement = judgement(text);
            assert!(
                matches!(judgement, Judgement::Malformed(_)),
                "{text:?}: {judgement:?}"
            );
        }
    }

    #[test]
    fn interim_answers_are_passed_over() {
        let text = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 E\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\n";
        assert_eq!(judgement(text), Judgement::Status(200));
        for end in 0..text.len() {
            assert_eq!(judgement(&text[..end]), Judgement::More, "{end}");
        }
        let wanted = judge(text.as_bytes(), &check(100, 100));
        assert_eq!(wanted, Judgement::Status(100));
    }

    proptest! {
        #[test]
        fn noise_is_judged(data in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = judge(&data, &check(200, 200));
        }

        #[test]
        fn a_judgement_does_not_change_with_more(
            head in "(HTTP/1\\.[01] [1-5][0-9]{2}|[HTP/1. 0-9]{0,20})",
            tail in "[ -~\r\n]{0,60}",
            cut: prop::sample::Index,
        ) {
            let text = format!("{head}{tail}\r\n");
            let whole = judge(text.as_bytes(), &check(200, 200));
            let part = judge(&text.as_bytes()[..cut.index(text.len())], &check(200, 200));
            match part {
                Judgement::More => {}
                Judgement::Status(_) => prop_assert_eq!(part, whole),
                Judgement::Malformed(_) => {
                    prop_assert!(matches!(whole, Judgement::Malformed(_)));
                }
            }
        }
    }
}
