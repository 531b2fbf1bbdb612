// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import "testing"

func TestCrunIsChosenOnlyIfContainerdCanUseIt(t *testing.T) {
	const (
		debian12    = "containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u2\n"
		docker      = "containerd containerd.io v2.1.3 3cb1a0d\n"
		oldCrun     = "crun version 1.8.1\ncommit: f8a096be060b22ccd3d5f3ebe44108517fbf6c30\nspec: 1.0.0\n"
		presentCrun = "crun version 1.21\ncommit: 10269840aa07fb7e6b7e1acff6198692d8ff5c88\nspec: 1.0.0\n"
	)
	for name, test := range map[string]struct{ containerd, crun, want string }{
		"containerd 1 and an old crun":                       {debian12, oldCrun, "crun"},
		"containerd 2 and an old crun":                       {docker, oldCrun, "runc"},
		"containerd 2 and a later crun":                      {docker, presentCrun, "crun"},
		"containerd 2 and the first crun that works with it": {docker, "crun version 1.14.3\n", "crun"},
		"containerd 2 and the last crun that does not":       {docker, "crun version 1.14.2\n", "runc"},
		"crun is not installed":                              {debian12, "", "runc"},
		"an unknown containerd":                              {"", presentCrun, "runc"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := chooseRuntime(test.containerd, test.crun); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
