#pragma once
/// The handshake of every connection of a job: both sides prove that they know the job secret, and learn who is there.
///
/// Four messages, HMAC-SHA256 over everything said so far, with a label that says whose word it is:
///   dialer -> acceptor   hello {version, purpose, SHA-256 of the job name, dialer's id, id it wants (zero: anybody),
///   nonce} acceptor -> dialer   proof {acceptor's id, nonce, mac} dialer -> acceptor   proof {mac} acceptor -> dialer
///   welcome {mac}
/// so that "done" on one side means that the other has accepted too. A side that refuses says why in a refusal message,
/// which carries no proof and does nothing but end the connection. Messages start with 8 bytes of magic: other
/// protocols are refused at their first byte. The version is in every message; 2 and up are free for TLS with the
/// secret as PSK.
///
/// What it gives: strangers, strays of other jobs and replayed or reflected messages are refused before any state
/// changes. What it does not give: secrecy or integrity of what follows. Somebody who can alter packets on the way can
/// still inject. Without a secret the key comes from the job's name alone: strays are refused, but whoever knows the
/// name can join.

#include <cstdint>
#include <memory>
#include <string>

#include "base/handshake.h"
#include "rendezvous/secret.h"

namespace unisono::rendezvous {

/// What a connection is for; both sides must mean the same.
enum class Purpose : std::uint8_t { link = 1, store = 2 };

/// Handshakes for the process `self` of `job`. `self` may be zero for store connections, whose clients need no
/// identity. An acceptor refuses a dialer that asks for another id than `self`; a dialer refuses an acceptor with
/// another id than the one it dialled (unless that is zero) and itself.
std::shared_ptr<HandshakeFactory> make_handshake_factory(PeerId self, const std::string& job, const Secret& secret,
                                                         Purpose purpose = Purpose::link);

}  // namespace unisono::rendezvous
