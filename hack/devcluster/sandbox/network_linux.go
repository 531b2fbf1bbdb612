// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The two ends of a pair of interfaces that replaces a network card. Both are inside, so the pair leads nowhere. A route through it lets
// packets reach the packet filters, which alone know the addresses of Services.
const (
	nodeInterface = "node0"
	farInterface  = "node1"
)

// connect gives the network namespace its loopback, its addresses, and a default route for each.
func connect(addresses []netip.Prefix) error {
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find interface lo: %w", err)
	}
	if err := netlink.LinkSetUp(loopback); err != nil {
		return fmt.Errorf("set interface lo up: %w", err)
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name = nodeInterface
	pair := &netlink.Veth{LinkAttrs: attributes, PeerName: farInterface}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("add interface %s: %w", nodeInterface, err)
	}
	far, err := netlink.LinkByName(farInterface)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", farInterface, err)
	}
	for _, link := range []netlink.Link{pair, far} {
		if err := netlink.LinkSetUp(link); err != nil {
			return fmt.Errorf("set interface %s up: %w", link.Attrs().Name, err)
		}
	}
	for _, address := range addresses {
		ip, bits := net.IP(address.Addr().AsSlice()), address.Addr().BitLen()
		own := &netlink.Addr{IPNet: &net.IPNet{IP: ip, Mask: net.CIDRMask(address.Bits(), bits)}}
		if address.Addr().Is6() {
			own.Flags = unix.IFA_F_NODAD // Nobody else is there.
		}
		if err := netlink.AddrAdd(pair, own); err != nil {
			return fmt.Errorf("add address %s: %w", address, err)
		}
		everything := &net.IPNet{IP: make(net.IP, bits/8), Mask: net.CIDRMask(0, bits)}
		anywhere := &netlink.Route{LinkIndex: pair.Attrs().Index, Scope: netlink.SCOPE_LINK, Dst: everything, Src: ip}
		if err := netlink.RouteAdd(anywhere); err != nil {
			return fmt.Errorf("add default route from %s: %w", address, err)
		}
	}
	return nil
}
