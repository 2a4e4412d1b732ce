// SPDX-License-Identifier: Apache-2.0
//! A socket for ICMP or SCTP, opened as privileges permit, and the parsing of answers.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvfrom, recvmsg,
};
use socket2::{Domain, Socket, Type};

use super::filter::filter;
use super::icmp_errors::report_icmp_errors;
use super::incoming::{Answer, Incoming};
use super::source_address::SourceAddress;
use super::{icmp_packet, sctp_packet};

/// Packets read before yielding to other work.
const PACKETS_AT_ONCE: usize = 64;
/// Requested size of the receive buffer; the kernel may grant less.
const BUFFER_BYTES: usize = 4 << 20;
/// Longest part of a packet that is read.
const PACKET_BYTES: usize = 256;

/// Protocol of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// ICMP or `ICMPv6`, echo only.
    Ping,
    /// SCTP on a raw socket.
    Sctp,
}

/// An open socket; clones share it.
#[derive(Clone, Debug)]
pub(super) struct OpenSocket {
    socket: Arc<Socket>,
    protocol: Protocol,
    ipv4: bool,
    ping_id: u16,
    /// Whether it is a raw socket, and not a ping socket of the kernel.
    raw: bool,
}

impl OpenSocket {
    /// Open a socket for a family. `ping_id` is the identifier of echo requests; on a
    /// ping socket the kernel chooses its own.
    pub(super) fn open(
        protocol: Protocol,
        ipv4: bool,
        ping_id: u16,
        source: &SourceAddress,
    ) -> io::Result<Self> {
        let domain = if ipv4 { Domain::IPV4 } else { Domain::IPV6 };
        let number = match protocol {
            Protocol::Ping => icmp_packet::protocol(ipv4),
            Protocol::Sctp => sctp_packet::PROTOCOL,
        };
        // A ping socket needs a group in net.ipv4.ping_group_range, no capability.
        let plain = (protocol == Protocol::Ping)
            .then(|| Socket::new(domain, Type::DGRAM, Some(number)).ok())
            .flatten();
        let raw = plain.is_none();
        let socket = match plain {
            Some(socket) => socket,
            None => Socket::new(domain, Type::RAW, Some(number))?,
        };
        socket.set_nonblocking(true)?;
        if raw {
            let (bytes, half) = match protocol {
                Protocol::Ping => icmp_packet::filter(ipv4, ping_id),
                Protocol::Sctp => sctp_packet::filter(),
            };
            socket.attach_filter(&filter(ipv4, bytes, half))?;
        }
        report_icmp_errors(&socket, ipv4)?;
        socket.set_recv_buffer_size(BUFFER_BYTES)?;
        source.bind(&socket, ipv4)?;
        Ok(Self {
            socket: Arc::new(socket),
            protocol,
            ipv4,
            ping_id,
            raw,
        })
    }

    /// The identifier to compare if the kernel does not compare it.
    fn own_ping_id(&self) -> Option<u16> {
        self.raw.then_some(self.ping_id)
    }

    /// A second descriptor of the socket.
    pub(super) fn try_clone(&self) -> io::Result<Socket> {
        self.socket.try_clone()
    }

    /// Set the mark (`SO_MARK`) of packets sent from now on; 0 is none.
    pub(super) fn set_mark(&self, mark: u32) -> io::Result<()> {
        self.socket.set_mark(mark)
    }

    pub(super) fn send(&self, to: IpAddr, packet: &[u8]) -> io::Result<()> {
        let to = SocketAddr::new(to, 0).into();
        self.socket.send_to(packet, &to).map(drop)
    }

    /// Read received packets, up to a limit. Returns whether the queue is empty.
    pub(super) fn drain(&self, deliver: impl Fn(&Incoming)) -> bool {
        let fd = self.socket.as_raw_fd();
        let mut packet = [0; PACKET_BYTES];
        for _ in 0..PACKETS_AT_ONCE {
            match recvfrom::<SockaddrStorage>(fd, &mut packet) {
                Ok((length, Some(from))) => {
                    let data = &packet[..length.min(PACKET_BYTES)];
                    let data = if self.raw && self.ipv4 {
                        after_ip_header(data)
                    } else {
                        Some(data)
                    };
                    let incoming = data.zip(address(&from)).and_then(|(data, from)| {
                        match self.protocol {
                            Protocol::Ping => {
                                icmp_packet::reply(data, from, self.own_ping_id())
                            }
                            Protocol::Sctp => sctp_packet::reply(data, from),
                        }
                    });
                    if let Some(incoming) = incoming {
                        deliver(&incoming);
                    }
                }
                Ok((_, None)) | Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return true,
                // An ICMP error is reported here once and also in the error queue.
                Err(_) => self.drain_errors(&deliver),
            }
        }
        false
    }

    /// Read ICMP errors, each with the beginning of the packet that caused it.
    pub(super) fn drain_errors(&self, deliver: impl Fn(&Incoming)) {
        let fd = self.socket.as_raw_fd();
        let mut packet = [0; PACKET_BYTES];
        let mut control =
            nix::cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6, [u64; 8]);
        for _ in 0..PACKETS_AT_ONCE {
            let mut parts = [io::IoSliceMut::new(&mut packet)];
            let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
            let Ok(message) =
                recvmsg::<SockaddrStorage>(fd, &mut parts, Some(&mut control), flags)
            else {
                return;
            };
            let error = message.cmsgs().ok().and_then(|mut all| {
                all.find_map(|control| match control {
                    ControlMessageOwned::Ipv4RecvErr(error, _)
                    | ControlMessageOwned::Ipv6RecvErr(error, _) => Some(error.ee_errno),
                    _ => None,
                })
            });
            let code = error.and_then(|code| i32::try_from(code).ok());
            let to = message.address.as_ref().and_then(address);
            let length = message.bytes;
            let Some((to, code)) = to.zip(code) else {
                continue;
            };
            let data = &packet[..length.min(PACKET_BYTES)];
            let number = match self.protocol {
                Protocol::Ping => icmp_packet::number_sent(data, self.own_ping_id()),
                Protocol::Sctp => sctp_packet::number_sent(data),
            };
            if let Some(number) = number {
                deliver(&Incoming {
                    id: (to, number),
                    tag: None,
                    answer: Answer::Icmp(code),
                });
            }
        }
    }
}

fn address(from: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = from.as_sockaddr_in().map(|a| a.ip().into());
    v4.or_else(|| from.as_sockaddr_in6().map(|a| a.ip().into()))
}

/// Skip the IP header, which a raw IPv4 socket delivers (RFC 791, section 3.1).
fn after_ip_header(packet: &[u8]) -> Option<&[u8]> {
    let length = usize::from(packet.first()? & 0xf) * 4;
    packet.get(length..)
}
