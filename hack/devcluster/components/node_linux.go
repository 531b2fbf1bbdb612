// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package components

import (
	"context"

	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	kubeproxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"github.com/glassback/glassback/hack/devcluster/images"
	"github.com/glassback/glassback/hack/devcluster/provisioner"
)

// init adds the components of a real node, which needs Linux.
func init() {
	mains["kubelet"] = func() { run(kubelet.NewKubeletCommand(context.Background())) }
	mains["kube-proxy"] = func() { run(kubeproxy.NewProxyCommand()) }
	mains["coredns"] = coremain.Run
	mains["provisioner"] = func() { until("provisioner", provisioner.Main) }
	mains["registry"] = func() { until("registry", images.Main) }
}
