/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package aliyun

import "context"

// Check returns the number of the account, and an error unless the access key is accepted and
// may ask for the region's instances. It asks for none and changes nothing: the second call is
// a dry run.
func (r *Region) Check(ctx context.Context) (account string, err error) {
	account, err = r.Account(ctx)
	if err != nil {
		return "", err
	}
	return account, r.proven(ctx)
}
