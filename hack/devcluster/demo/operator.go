// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/glassback/glassback/hack/devcluster/cluster"
)

// The operator's ServiceAccount, as in artifacts/rbac, and how long its token lasts.
const (
	operatorNamespace = "glassback-system"
	operatorAccount   = "glassback"
	tokenLife         = 24 * time.Hour
)

// simulatorSpeed is how many times as fast as in ECS instances start and stop in the simulated one.
const simulatorSpeed = "5"

// startSimulator starts the ECS simulator in the cluster's network, where the operator is, and returns it with its address.
func startSimulator(ctx context.Context, c *cluster.Cluster, o options, dir string) (*child, string, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, "", err
	}
	command := c.Command(ctx, o.ecssim, "--bind-address", address, "--speed", simulatorSpeed)
	simulator, err := start("the ECS simulator", filepath.Join(dir, "ecssim.log"), os.Environ(), command.Args)
	return simulator, "http://" + address, err
}

// startOperator starts the operator, whose ECS is at an address, and which shows its page at another.
func startOperator(ctx context.Context, admin *api, c *cluster.Cluster, o options, dir, ecs, page string) (*child, error) {
	kubeconfig := filepath.Join(dir, "operator.kubeconfig")
	if err := admin.writeKubeconfig(ctx, operatorNamespace, operatorAccount, tokenLife, kubeconfig); err != nil {
		return nil, err
	}
	webhooks, err := freeAddress()
	if err != nil {
		return nil, err
	}
	// In the cluster's network, from which it reaches what is in containers, and the API server reaches it.
	command := c.Command(ctx, o.glassback, "--kubeconfig", kubeconfig, "--webhook-url", "https://"+webhooks, "-v=2",
		"--inspect-bind-address", page, "--inspect-breakpoints", "--ecs-endpoint", ecs, "--controllers", controllersOn(c.Real()))
	return start("the operator", filepath.Join(dir, "operator.log"), withAccount(os.Environ()), command.Args)
}

// withAccount gives an environment the access key that the ECS simulator knows, instead of whatever account it is that the user has.
func withAccount(env []string) []string {
	const prefix = "ALIBABA_CLOUD_"
	others := slices.DeleteFunc(slices.Clone(env), func(variable string) bool { return strings.HasPrefix(variable, prefix) })
	return append(others, prefix+"ACCESS_KEY_ID=test", prefix+"ACCESS_KEY_SECRET=test")
}

// freeAddress returns an address of the loopback that is free.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
