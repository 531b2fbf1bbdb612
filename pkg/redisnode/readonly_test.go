// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redisnode

import (
	"errors"
	"net"
	"strconv"
	"testing"
	"time"
)

func TestAReadOnlyNodeSendsNoCommandThatChangesSomething(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	connected := make(chan struct{}, 100)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connected <- struct{}{}
			conn.Close()
		}
	}()
	host, port, _ := net.SplitHostPort(listener.Addr().String())
	number, _ := strconv.Atoi(port)
	node := DialReadOnly(host, number, Login{})
	defer node.Close()
	ctx, slots := t.Context(), SlotRange(0, 1)
	for command, err := range map[string]error{
		"meet": node.Meet(ctx, "10.0.0.1", 6379, 16379), "forget": node.Forget(ctx, "id"), "add slots": node.AddSlots(ctx, slots),
		"replicate": node.Replicate(ctx, "id"), "failover": node.Failover(ctx, Takeover), "set slots": node.SetSlots(ctx, slots, SlotStable, ""),
		"migrate": node.Migrate(ctx, "10.0.0.1", 6379, Login{}, time.Second, []string{"key"}), "restore": node.RestoreFunctions(ctx, "dump"),
		"set": node.SetDirective(ctx, "maxmemory", "0"), "set user": node.SetUser(ctx, "app", nil), "save": node.SaveUsers(ctx),
		"delete users": node.DeleteUsers(ctx, []string{"app"}), "end": node.EndConnections(ctx, "app"),
		"delete library": node.DeleteLibrary(ctx, "library"), "pause": node.PauseWrites(ctx, time.Second), "resume": node.ResumeWrites(ctx),
	} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: error %v", command, err)
		}
	}
	if len(connected) > 0 {
		t.Error("a command connected to the server")
	}
	_, view := node.View(ctx)
	_, keys := node.Keys(ctx, slots, 1)
	_, libraries := node.Libraries(ctx)
	_, dump := node.DumpFunctions(ctx)
	_, directives := node.Directives(ctx, []string{"maxmemory"})
	_, users := node.Users(ctx)
	for command, err := range map[string]error{
		"view": view, "keys": keys, "libraries": libraries, "dump": dump, "get": directives, "users": users,
	} {
		if err == nil || errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: error %v, want an error of the connection", command, err)
		}
	}
	if len(connected) == 0 {
		t.Error("no read connected to the server")
	}
}
