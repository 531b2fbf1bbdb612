// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ecssim simulates ECS of Alibaba Cloud over HTTP, and the call of its STS that returns the caller's identity. It serves tests, the
// demo, and users without an account. Its instances are records in memory.
//
// # What it simulates
//
//   - The protocol: parameters in the query and in the form, signed with HMAC-SHA1. Answers and
//     errors are JSON, with the fields, codes and statuses of ECS. For a wrong signature, ECS
//     returns the string to sign, secrets included. The simulator does so, too.
//   - Authentication: access keys, security tokens, timestamps within 15 minutes, and nonces
//     that are valid once. An account does not see the instances of another one.
//   - The states of an instance, and the calls that ECS rejects in each state. Each call advances
//     the states by the elapsed time. There are no goroutines and no timers, so the simulator
//     works in a bubble of testing/synctest.
//   - ClientToken: CreateInstance returns the same result for the same token and parameters, for
//     30 minutes. A rejected create does not use up its token.
//
// # Differences from ECS
//
//   - The simulator rejects a parameter that the action does not have with 400 InvalidParameter,
//     and reports it in Call.Violation. ECS ignores such a parameter, and so hides typing errors
//     of a client.
//   - It rejects some parameters of ECS in the same way: for DescribeInstances, all filters but
//     InstanceIds and Tag, and pages by number; for CreateInstance, all that the operator does
//     not send, such as a launch template.
//   - InstanceIds=[] filters nothing: the answer has all instances. So a test fails if its client
//     sends an empty list by mistake.
//   - It rejects a MaxResults below 10 or above 100 with 400 InvalidParameter.
//   - While an instance is being released, the actions with a parameter InstanceId reject it with
//     403 IncorrectInstanceStatus. The instance is Stopping if it was Running, else Stopped.
//   - It accepts the ClientToken of ModifyInstanceSpec and ignores it.
//   - It does not simulate XML, quotas, prices, disks, networks, images and permissions. An
//     account has one VPC in a region, with all vSwitches and security groups in it.
//
// # Names that provoke an error
//
// The objects that a call names exist, except instances, if their names have the right prefix: "ecs." for types, "sg-" for security groups,
// "vsw-" for vSwitches, "s-" for snapshots, and the region for zones. An object whose name contains "missing" does not exist. The error is
// 404 Invalid….NotFound, for a type 403 InvalidInstanceType.ValueNotSupported. The regions are the regions of ECS. These parts of a name
// provoke other errors:
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
// Point a client at Server.Transport, or serve the Server. SetFault injects faults into single calls. Calls returns the calls, and
// Instances returns the instances. Update changes an instance as a user does in the console. The Server does not detect mistakes of a
// client. A client that requests two instances gets two, and the test has to count them.
package ecssim
