#!/bin/sh
# Two strongSwans, in namespaces a and b, agree on a tunnel between 10.1.0.1 and
# 10.2.0.1 by IKEv2 with a shared secret.
set -eu
dir=$(mktemp -d)
cd "$dir"
modprobe -a drbg seqiv esp4 xfrm_user veth

ip netns add a
ip netns add b
ip link add eth0 netns a type veth peer name eth0 netns b

# gateway NAME OWN OTHER: NAME is at 192.0.2.OWN, before 10.OWN.0.1.
gateway() {
	ip -n "$1" link set lo up
	ip -n "$1" link set eth0 up
	ip -n "$1" addr add "192.0.2.$2/24" dev eth0
	ip -n "$1" addr add "10.$2.0.1/32" dev lo
	ip -n "$1" route add "10.$3.0.0/16" dev eth0 src "10.$2.0.1"
	mkdir "$1"
	cat >"$1/strongswan.conf" <<-CONF
		charon {
		  load = random nonce openssl aes sha1 sha2 hmac kdf gcm pem pkcs1 kernel-netlink socket-default vici
		  plugins { vici { socket = unix://$dir/$1/vici } }
		  filelog { stderr { default = 1 } }
		}
		swanctl { load = openssl random pem pkcs1 }
	CONF
	cat >"$1/swanctl.conf" <<-CONF
		connections {
		  net {
		    local_addrs = 192.0.2.$2
		    remote_addrs = 192.0.2.$3
		    version = 2
		    proposals = aes128gcm16-prfsha256-x25519
		    local { auth = psk }
		    remote { auth = psk }
		    children { net {
		      local_ts = 10.$2.0.0/16
		      remote_ts = 10.$3.0.0/16
		      esp_proposals = aes128gcm16-esn
		    } }
		  }
		}
		secrets { ike { secret = "not for use" } }
	CONF
	# The pid file's path is compiled in, so each has a /run of its own.
	STRONGSWAN_CONF=$dir/$1/strongswan.conf ip netns exec "$1" unshare --mount \
		sh -c 'mount -t tmpfs run /run && exec /usr/lib/ipsec/charon' >"$1/log" 2>&1 &
	until [ -S "$1/vici" ]; do sleep 0.1; done
	control "$1" --load-all
}
# control NAME ARG... is swanctl of a gateway.
control() {
	name=$1 && shift
	STRONGSWAN_CONF=$dir/$name/strongswan.conf SWANCTL_DIR=$dir/$name swanctl "$@" --uri "unix://$dir/$name/vici"
}

gateway a 1 2
gateway b 2 1
control a --initiate --child net || { cat a/log b/log; exit 1; }
control a --list-sas
ip -n a xfrm state
ip netns exec a ping -c 2 -W 2 10.2.0.1
