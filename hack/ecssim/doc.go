/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package ecssim simulates ECS of Alibaba Cloud over HTTP, and the call of its STS that returns
// the caller's identity. It serves tests, the demo, and users without an account. Its instances
// are records in memory.
//
// # What it keeps to
//
//   - The wire: parameters of the query and of the form, signed with HMAC-SHA1; answers and
//     errors in JSON, with the fields, codes and statuses of ECS. The error of a wrong
//     signature repeats all that was signed, as that of ECS does.
//   - Who calls: access keys, security tokens, timestamps within 15 minutes, each nonce once.
//     The accounts do not see each other's instances.
//   - The states of an instance, and the calls that each state refuses. A call advances the
//     states by the time since the last one: there are no goroutines and no timers, so that it
//     works in a bubble of testing/synctest.
//   - ClientToken: the same result for the same parameters, for Config.TokenLife, of
//     CreateInstance and RunInstances. A create that was refused leaves the token unused.
//
// # What is other than in ECS
//
//   - A parameter that the action does not have is refused with 400 InvalidParameter, and is
//     Call.Violation: ECS ignores it, and a client's typing error with it. So are parameters
//     of ECS that would make another instance here than there, such as a launch template,
//     and filters that are not carried out. The others that mean nothing here are accepted.
//   - An InstanceIds of [] filters nothing, as if it had not been given: whoever sends it by
//     mistake is to notice.
//   - MaxResults out of 10 to 100 is refused with 400 InvalidParameter.
//   - An instance that is being released, before it is gone, refuses everything with 403
//     IncorrectInstanceStatus. It is Stopping if it ran, and else Stopped.
//   - ClientToken of ModifyInstanceSpec is accepted, and means nothing.
//   - XML, quotas, prices, disks, networks, images and permissions: there are none. An account
//     has one VPC in a region, and all vSwitches and security groups are in it.
//
// # Names that provoke an error
//
// Everything that an object names exists, if it looks like one: types begin with "ecs.",
// security groups with "sg-", vSwitches with "vsw-", snapshots with "s-", zones with their
// region. But what contains "missing" does not exist: 404 Invalid….NotFound, and 403
// InvalidInstanceType.ValueNotSupported for a type. Regions are those of ECS. Besides, in
//
//	an instance type   nostock      403 OperationDenied.NoStock
//	                   unsupported  403 InvalidInstanceType.ZoneNotSupported
//	                   quota        403 QuotaExceed.ElasticQuota
//	                   balance      403 InvalidAccountStatus.NotEnoughBalance
//	                   forbidden    403 Forbidden.RAM
//	                   throttled    400 Throttling.User
//	                   unavailable  503 ServiceUnavailable
//	                   broken       500 InternalError
//	a zone             notonsale    403 Zone.NotOnSale
//	an image           vanishing    the instance is Pending for ten minutes, then gone
//	a security token   expired      400 InvalidSecurityToken.Expired
//	                   malformed    400 InvalidSecurityToken.Malformed
//
// # How it is used
//
// Point a client at Server.Transport, or serve the Server. SetFault breaks single calls,
// Calls returns the calls, Instances returns the instances, and Update changes an instance as a
// user does in the console. The Server judges no client: a client that asks for two instances
// gets two, and tests count them.
package ecssim
