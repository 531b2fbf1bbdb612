//go:build !linux

/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package redistest

import (
	"errors"
	"os/exec"
)

const canLift = false

func start(cmd *exec.Cmd) error {
	return cmd.Start()
}

func liftFileLimit(int) error {
	return errors.ErrUnsupported
}
