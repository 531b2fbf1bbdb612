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

// The operator's ServiceAccount in artifacts/rbac, and the lifetime of its token.
const (
	operatorNamespace = "glassback-system"
	operatorAccount   = "glassback"
	tokenLife         = 24 * time.Hour
)

// simulatorSpeed is how many times faster than in ECS the simulated instances start and stop.
const simulatorSpeed = "5"

// startSimulator starts the ECS simulator in the cluster's network, where the operator runs. It returns its process and its URL.
func startSimulator(ctx context.Context, c *cluster.Cluster, o options, dir string) (*child, string, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, "", err
	}
	command := c.Command(ctx, o.ecssim, "--bind-address", address, "--speed", simulatorSpeed)
	simulator, err := start("the ECS simulator", filepath.Join(dir, "ecssim.log"), os.Environ(), command.Args)
	return simulator, "http://" + address, err
}

// startOperator starts the operator. ecs is the URL of the ECS simulator, page the address of the operator's page.
func startOperator(ctx context.Context, admin *api, c *cluster.Cluster, o options, dir, ecs, page string) (*child, error) {
	kubeconfig := filepath.Join(dir, "operator.kubeconfig")
	if err := admin.writeKubeconfig(ctx, operatorNamespace, operatorAccount, tokenLife, kubeconfig); err != nil {
		return nil, err
	}
	webhooks, err := freeAddress()
	if err != nil {
		return nil, err
	}
	// The operator runs in the cluster's network: it must reach containers, and the API server must reach it.
	command := c.Command(ctx, o.glassback, "--kubeconfig", kubeconfig, "--webhook-url", "https://"+webhooks, "-v=2",
		"--inspect-bind-address", page, "--inspect-breakpoints", "--ecs-endpoint", ecs, "--controllers", controllersOn(c.Real()))
	return start("the operator", filepath.Join(dir, "operator.log"), withAccount(os.Environ()), command.Args)
}

// withAccount replaces the user's access key in an environment by the one of the ECS simulator.
func withAccount(env []string) []string {
	const prefix = "ALIBABA_CLOUD_"
	others := slices.DeleteFunc(slices.Clone(env), func(variable string) bool { return strings.HasPrefix(variable, prefix) })
	return append(others, prefix+"ACCESS_KEY_ID=test", prefix+"ACCESS_KEY_SECRET=test")
}

// freeAddress returns a free address on loopback.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
