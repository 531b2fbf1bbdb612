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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/glassback/glassback/hack/devcluster/cluster"
)

// The operator's ServiceAccount in artifacts/rbac, and the lifetime of its token.
const (
	operatorNamespace = "glassback-system"
	operatorAccount   = "glassback"
	tokenLife         = 24 * time.Hour
)

// These paths are relative to the root of the repository, where make runs the demo.
const (
	operatorBinary  = "bin/glassback"
	simulatorBinary = "bin/ecssim"
	artifacts       = "artifacts"
)

// simulatorSpeed is the factor by which the simulated instances start and stop faster than instances of ECS.
const simulatorSpeed = "5"

// startSimulator starts the ECS simulator in the cluster's network, where the operator runs. It returns the simulator's process and URL.
func startSimulator(ctx context.Context, c *cluster.Cluster, dir string) (*child, string, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, "", err
	}
	command := c.Command(ctx, simulatorBinary, "--bind-address", address, "--speed", simulatorSpeed)
	simulator, err := start("the ECS simulator", filepath.Join(dir, "ecssim.log"), os.Environ(), command)
	return simulator, "http://" + address, err
}

// startOperator starts the operator. ecs is the URL of the ECS simulator. inspect is the address on which the operator serves its page,
// /inspect/.
func startOperator(ctx context.Context, admin *api, c *cluster.Cluster, dir, ecs, inspect string) (*child, error) {
	kubeconfig := filepath.Join(dir, "operator.kubeconfig")
	if err := admin.writeKubeconfig(ctx, operatorNamespace, operatorAccount, tokenLife, kubeconfig); err != nil {
		return nil, err
	}
	webhooks, err := freeAddress()
	if err != nil {
		return nil, err
	}
	// The operator runs in the cluster's network: it must reach containers, and the API server must reach it.
	command := c.Command(ctx, operatorBinary, "--kubeconfig", kubeconfig, "--webhook-url", "https://"+webhooks, "-v=2",
		"--inspect-bind-address", inspect, "--inspect-breakpoints", "--ecs-endpoint", ecs,
		"--ecs-own-credentials-namespaces", metav1.NamespaceDefault,
		"--controllers", controllersOn(c.Real()))
	return start("the operator", filepath.Join(dir, "operator.log"), withSimulatorKey(os.Environ()), command)
}

// withSimulatorKey removes all variables of Alibaba Cloud from an environment, and adds the access key of the ECS simulator.
func withSimulatorKey(env []string) []string {
	const prefix = "ALIBABA_CLOUD_"
	others := slices.DeleteFunc(slices.Clone(env), func(variable string) bool { return strings.HasPrefix(variable, prefix) })
	return append(others, prefix+"ACCESS_KEY_ID=test", prefix+"ACCESS_KEY_SECRET=test")
}

// freeAddress returns an address on loopback that is free in this process's network now. The cluster's network may differ.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
