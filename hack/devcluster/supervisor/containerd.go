// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// dialContainerd returns a client of the containerd of this sandbox. It connects with the first request.
func dialContainerd() (*grpc.ClientConn, error) {
	connection, err := grpc.NewClient("unix://"+containerdSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("create client of containerd: %w", err)
	}
	return connection, nil
}

// runtimeReady returns an error if containerd cannot run containers or cannot give them a network. A kubelet sends the same request.
func runtimeReady(ctx context.Context) error {
	connection, err := dialContainerd()
	if err != nil {
		return err
	}
	defer connection.Close()
	answer, err := cri.NewRuntimeServiceClient(connection).Status(ctx, &cri.StatusRequest{})
	if err != nil {
		return fmt.Errorf("get status of containerd: %w", err)
	}
	for _, condition := range answer.Status.Conditions {
		if !condition.Status {
			return fmt.Errorf("%s is false: %s: %s", condition.Type, condition.Reason, condition.Message)
		}
	}
	return nil
}

// pull makes containerd pull an image from the cluster's registry, even if containerd already has an image of that name.
func pull(ctx context.Context, image string) error {
	connection, err := dialContainerd()
	if err != nil {
		return err
	}
	defer connection.Close()
	request := &cri.PullImageRequest{Image: &cri.ImageSpec{Image: image}}
	if _, err := cri.NewImageServiceClient(connection).PullImage(ctx, request); err != nil {
		return fmt.Errorf("pull %s: %w", image, err)
	}
	return nil
}
