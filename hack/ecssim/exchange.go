// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecssim

import (
	"net/http"
	"time"
)

// The versions of the APIs.
const (
	ecsVersion = "2014-05-26"
	stsVersion = "2015-04-01"
)

// exchange is the execution of a call. The Server is locked.
type exchange struct {
	*request

	s         *Server
	fault     Fault
	now       time.Time
	requestID string
	account   Account
	region    string

	made      string // the ID of the instance that CreateInstance returned
	violation string
}

func (x *exchange) run() (object, *problem) {
	account, p := x.s.authenticate(x.request, x.now, x.now.Add(x.fault.Skew))
	if p != nil {
		return nil, p
	}
	x.account = account
	operation, p := x.operation()
	if p != nil {
		return nil, p
	}
	if p := x.check(operation); p != nil {
		return nil, p
	}
	if operation.version == ecsVersion {
		if p := x.checkRegion(); p != nil {
			return nil, p
		}
	}
	return operation.run(x)
}

// operation returns the operation that the call names.
func (x *exchange) operation() (*operation, *problem) {
	version := x.params.get("Version")
	operation := operations[x.params.get("Action")]
	switch {
	case version == "":
		return nil, missing("Version")
	case version != ecsVersion && version != stsVersion:
		return nil, badRequest("InvalidVersion", "Specified parameter Version is not valid.")
	case operation == nil || operation.version != version:
		return nil, &problem{http.StatusNotFound, "InvalidAction.NotFound", "Specified api is not found, please check your url and method."}
	case x.params.get("Format") != "JSON" && x.params.get("Format") != "json":
		return nil, badRequest("InvalidParameter", "The format is JSON: there is no other one here.")
	}
	return operation, nil
}

func callerIdentity(x *exchange) (object, *problem) {
	id := x.account.ID
	if x.account.SecurityToken == "" {
		return object{"AccountId": id, "IdentityType": "Account", "Arn": "acs:ram::" + id + ":root", "UserId": id, "PrincipalId": id}, nil
	}
	return object{
		"AccountId": id, "IdentityType": "AssumedRoleUser", "Arn": "acs:ram::" + id + ":assumed-role/ecssim/session",
		"UserId": "300000000000000000:session", "PrincipalId": "300000000000000000:session",
	}, nil
}
