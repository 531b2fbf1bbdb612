// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package aliyun

import "context"

// Check returns the number of the account. It returns an error unless ECS accepts the access
// key, and the key may list the instances of the region. It changes nothing.
func (r *Region) Check(ctx context.Context) (account string, err error) {
	account, err = r.Account(ctx)
	if err != nil {
		return "", err
	}
	return account, r.checkListAccess(ctx)
}
