// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants

// table has a mutant or more for each promise of docs/architecture.md that a table of guards makes.
var table = []Mutant{
	// all controllers: One key is synced by one worker at a time
	{
		"The key is done before its sync: another worker can take it",
		"loop Loop.next", "loop TestOneWorkerSyncsAKeyAtATime",
		"defer l.Queue.", "l.Queue.",
	},
	{
		"An error leads to no retry",
		"loop Loop.finish", "loop TestWhatASyncReturnsDecidesWhenItRunsAgain",
		"l.Queue.AddAfter(key, retry)", "",
	},
	{
		"A panic is a success",
		"loop Loop.syncOnce", "loop TestWhatASyncReturnsDecidesWhenItRunsAgain",
		"err = fmt.Errorf", "_ = fmt.Errorf",
	},

	// all controllers: A change or a due time does not wait behind the keys of a restart
	{
		"No key is urgent when it enters the queue",
		"loop order.Push", "loop TestChangesDoNotWaitBehindARestart",
		"o.urgent(key)", "false",
	},

	// all controllers: No sync by a cache that does not show the controller's own writes
	{
		"No write is waited for",
		"loop Written.Wait", "loop TestWritten",
		"; left > 0 && !", "; left > maxStale && !",
	},
	{
		"A sync decides although the cache does not show the write of the sync before",
		"loop Written.Wait", "controller/mycronjob TestSyncDoesNotActOnACacheOlderThanItsWrites",
		"return left", "return 0",
	},

	// all controllers: A create only creates, an apply or delete hits only the version that was seen
	{
		"A create applies to an object that exists",
		"child Kind.create", "child TestReconcile",
		".WithResourceVersion(neverVersion)", "",
	},
	{
		"An apply hits any version of the object",
		"child Kind.apply", "child TestReconcile",
		".WithResourceVersion(object.GetResourceVersion())", "",
	},
	{
		"A delete hits any version of the object",
		"child Kind.delete", "controller/application TestAStaleCacheDoesNotChangeObjectsOfOtherOwners",
		", ResourceVersion: ptr.To(object.GetResourceVersion())", "",
	},
	{
		"An apply hits the live child of another owner",
		"child Kind.create", "child TestReconcile",
		"case !metav1.IsControlledBy(live, owner): return Outcome{}, k.owners.taken(owner, k.Name, live)", "",
	},

	// all controllers: A child that is not as desired is found
	{
		"A child that the operator does not remember is as desired without a comparison",
		"child Kind.update", "child TestWhatMakesAChildDiffer",
		"was == (checksum{}) && isExactly(object, desired)", "was == (checksum{})",
	},
	{
		"A child for which an apply changed nothing is never compared again",
		"child Kind.apply", "child TestTheSameInAnotherFormIsAppliedOnce",
		"k.checks.forget(object)", "",
	},

	// all controllers: An operator that does not lead holds no keys
	{
		"Handlers add keys before Run",
		"loop handler.add", "loop TestAStandbyHoldsNoKeys",
		"if !h.loop.begun.Load() { return }", "",
	},
	{
		"Run adds no keys of cached objects",
		"loop Loop.begin", "loop TestRunBeginsWithWhatTheCachesHold",
		"h.OnAdd(obj, true)", "_ = obj",
	},

	// all controllers: Two operators that share a Lease never lead at once
	{
		"A leader counts its time from the answer to a renewal, and not from the request",
		"app leadership.renew", "app TestTwoNeverLead",
		"record.RenewTime.Time", "time.Now()",
	},
	{
		"A standby takes the Lease before it has run out",
		"app leadership.free", "app TestTwoNeverLead",
		"last.duration -", "last.duration/2 -",
	},

	// all controllers: A child that another client changes back again and again is repaired ever more slowly
	{
		"No repair waits",
		"child repairs.wait", "controller/apiexamplea TestAFight",
		"max(0, last.delay()-r.clock.Since(last.last))", "0",
	},

	// all controllers: A handler is notified of a state after the index holds it
	{
		"Handlers are notified of an addition before the index has the object",
		"pipeline Informer.apply", "pipeline TestIndexBeforeHandlers",
		"if err := i.indexer.Add(obj); err != nil { return err } i.notify(delta.Type, &notification{new: obj, initial: initial})",
		"i.notify(delta.Type, &notification{new: obj, initial: initial}); if err := i.indexer.Add(obj); err != nil { return err }",
	},

	// all controllers: An upgrade writes the same for an object that uses no new field
	{
		"A child has another label",
		"controller/application labels", "controller/golden TestApplicationExamples",
		`"app.kubernetes.io/managed-by"`, `"app.kubernetes.io/part-of"`,
	},
	{
		"The revision of a Pod has another form",
		"controller/rediscluster/manifest Revision", "controller/golden TestRedisClusterExamples",
		"EncodeToString(sum[:])[:10]", "EncodeToString(sum[:])[:9]",
	},

	// all controllers: The operator may do what it does
	{
		"The chart grants more than the controllers that run need",
		"controller/rediscluster Descriptor", "permissions TestTheChartGrantsWhatTheControllersThatRunNeed",
		`permissions.Permission{Resource: "secrets", Verbs: []string{"create", "get"}},`, "",
	},

	// all controllers: No client logs the body of a request or a response, at any verbosity
	{
		"-v is not limited",
		"app setUpLogging", "app TestNoClientLogsABody",
		"config.Verbosity = min(config.Verbosity, options.MaxVerbosity)", "",
	},

	// ApiExampleA: Settled: no request
	{
		"A status is written that has not changed",
		"report Writer.Write", "report TestWrite",
		"if w.isWritten(object, status) { return object, nil }", "_ = w.isWritten(object, status)",
	},

	// Application: Each child has the fields that the spec gives it
	{
		"The Deployment is not applied",
		"controller/application Controller.changes", "controller/application TestInvariants",
		`c.deployments.Reconcile(app, app.Name, o.deployment, listed("Deployment"), p.Deployment),`, "",
	},
	{
		"A new leader that would create a child does not read the Application",
		"controller/application Controller.confirm", "controller/application TestANewLeaderDoesNotUndoAChange",
		"!= child.Nothing", "== child.Update || change.Verb == child.Delete",
	},
	{
		"An Application of the same name counts as read",
		"controller/application Controller.confirm", "controller/application TestNoReadAfterAnOwnStatus",
		"uid == app.UID", "uid != nil",
	},
	{
		"A new leader acts on a former Application",
		"controller/application Controller.confirm", "controller/application TestANewLeaderDoesNotUndoAChange",
		"&& a.ResourceVersion == app.ResourceVersion", "",
	},

	// Application: The number of replicas passes to the autoscaler and back without a dip
	{
		"The operator takes the number back from the autoscaler",
		"controller/application replicas", "controller/application TestTheAutoscalersNumberIsKept",
		"return nil default", "default",
	},

	// MyCronJob: At most one Job a slot
	{
		"The name of a Job does not follow from its slot",
		"controller/mycronjob slotName", "controller/mycronjob TestInvariants",
		"mcj.Name, s) }", "mcj.Name, int64(s)+int64(len(mcj.ResourceVersion)+len(mcj.Status.Conditions))*1_000_000) }",
	},
	{
		"A late Job is made without a look at the live objects",
		"controller/mycronjob Controller.confirm", "controller/mycronjob TestLateJobIsNotMadeFromAStaleCache",
		`== "": return nil`, `== "", late: return nil`,
	},
	{
		"A late Job is made although the live MyCronJob has changed",
		"controller/mycronjob Controller.confirm", "controller/mycronjob TestLateJobIsNotMadeFromAStaleCache",
		"|| live.ResourceVersion != mcj.ResourceVersion", "",
	},

	// MyCronJob: Every slot has run
	{
		"The watermark passes slots without a Job, and they are not counted",
		"controller/mycronjob plan.record", "controller/mycronjob TestInvariants",
		"p.missed++", "_ = s",
	},

	// MyCronJob: Each change of run-now makes one Job
	{
		"A status of an earlier version keeps no number: its names are used again",
		"controller/mycronjob recordRun", "controller/mycronjob TestAnUpgradeRunsNothingAgain",
		"status.LastRunNowNumber = runNumber(o.mcj)", "status.LastRunNowNumber = 0",
	},
	{
		"An old decision creates a run-now Job, which another operator may have run and cleaned up",
		"controller/mycronjob Controller.create", "controller/mycronjob TestARunNowJobIsNotCreatedByAnOldDecision",
		"decided) > actFor {", "decided) > keepFor {",
	},

	// RedisCluster: Data is never destroyed to repair a state
	{
		"Lost slots are assigned although no user has accepted the loss",
		"controller/rediscluster reportLoss", "controller/rediscluster TestDecideIsSafe",
		"accepted(o.Object)", `token != ""`,
	},
	{
		"Slots are lost although a member that does not answer may have them",
		"controller/rediscluster reportLoss", "controller/rediscluster TestDecideLosses",
		`for _, m := range o.Members { if !m.answers() { return wait(check, "Waiting for %s: the slots %s have no master", m.Name, lost) } }`,
		"",
	},

	// RedisCluster: Two clusters are never merged
	{
		"Two groups that both have a slot are introduced",
		"controller/rediscluster introduceNodes", "controller/rediscluster TestDecideIntroduce",
		"return stuck(reasonDivided", "_ = stuck(reasonDivided",
	},
	{
		"A node is introduced although its Pod was replaced",
		"controller/rediscluster executor.verify", "controller/rediscluster TestSyncIntroducesNoReplacedPod",
		"UID != m.Pod.UID || live.", "",
	},

	// RedisCluster: No Pod is deleted that something depends on
	{
		"Pods are replaced while a replica is not up to date",
		"controller/rediscluster policies", "controller/rediscluster TestDecideSpreadRollReady",
		`{"waitForReplicas", waitForReplicas},`, "",
	},
	{
		"A replica takes over although a missing one may have more of the data",
		"controller/rediscluster takeOverFrom", "controller/rediscluster TestDecideIsSafe",
		"(how == redisnode.Takeover || !o.linkedUntilLoss(best, n))", "best == nil",
	},
	{
		"A master is replaced that has the only copy of its slots",
		"controller/rediscluster rollPods", "controller/rediscluster TestDecideKeepsTheOnlyCopy",
		"&& o.Object.Spec.Storage == nil:", "&& o.Object == nil:",
	},

	// RedisCluster: A master that hands over accepts no write until it has become a replica
	{
		"The operator does not wait until the master is a replica",
		"controller/rediscluster executor.promote", "controller/rediscluster TestAFailoverEndsLate",
		"e.waitUntilReplica(ctx, master)", "nil",
	},
	{
		"The preStop hook does not hold back writes",
		"controller/rediscluster/manifest/scripts/stop.sh", "controller/rediscluster/manifest TestStopHoldsBackWrites",
		`ask -h "$POD_IP" -p "$PORT" CLIENT PAUSE 60000 WRITE >/dev/null`, "",
	},

	// RedisCluster: Functions are on a new master before its first slot, the last copy of a library is kept
	{
		"A new master gets slots before it has the functions",
		"controller/rediscluster copyLibraries", "controller/rediscluster TestDecideFunctions",
		"!to.isUnused()", "to != nil",
	},

	// RedisCluster: At most one Pod can be evicted at a time, while all are ready
	{
		"The budget allows two evictions",
		"controller/rediscluster/manifest Budget", "controller/rediscluster TestTheBudgetIsRaisedBeforePodsAreMade",
		"0, pods-1)))).", "0, pods-2)))).",
	},
	{
		"A Pod is deleted because the budget allowed the eviction of an earlier Pod with its name",
		"controller/rediscluster executor.evictionAllowed", "controller/rediscluster TestAnEvictionThatDidNotComplete",
		"at.After(pod.CreationTimestamp.Time) &&", "",
	},

	// RedisCluster: No Pod is replaced by one that the API server rejects
	{
		"A rejected Pod replaces a good one",
		"controller/rediscluster Controller.observe", "controller/rediscluster TestAPodThatWouldBeRejectedStays",
		"c.tryReplacement(ctx, o)", `""`,
	},

	// RedisCluster: With users, the operator can log in to every node before one Pod is replaced
	{
		"Pods are replaced while a node does not have the operator's user",
		"controller/rediscluster waitForUsers", "controller/rediscluster TestDecideUsers",
		"pending) > 0 {", "pending) > len(o.Members) {",
	},
	{
		"A node closes the user default while another one still needs it",
		"controller/rediscluster observed.wantUsers", "controller/rediscluster TestTheUserDefault",
		"|| o.podWithoutAccount() != nil", "",
	},

	// RedisCluster: While the Secret of the operator's user does not exist or is of another owner, only the creation of Pods waits
	{
		"A Pod is created before the Secret exists",
		"controller/rediscluster observed.whyNoPods", "controller/rediscluster TestDecideAccount",
		"o.AccountMissing", "o.AccountMissing && !o.Formed",
	},
	{
		"The password is in the error of a creation that failed, because the answer of a webhook quotes the Secret",
		"controller/rediscluster executor.createAccount", "controller/rediscluster TestARejectedSecret",
		"errors.New(reason)", "err",
	},
	{
		"A Pod mounts the Secret of another owner that was exchanged after the last look",
		"controller/rediscluster executor.checkAccount", "controller/rediscluster TestAForeignSecret",
		"read.foreign ||", "",
	},

	// RedisCluster: After users are set, one that is off or gone has no connection left
	{
		"A user that is off keeps its connections",
		"controller/rediscluster executor.setUsers", "controller/rediscluster TestUsersThatAreOff",
		"if u.isOff() {", "if u.isOff() && u.name == v1.UserDefault {",
	},

	// RedisCluster: All nodes use the same protocol among themselves
	{
		"Replicas are elected while some nodes have switched and others have not",
		"controller/rediscluster executor.switchTLS", "controller/rediscluster TestASwitchKeepsReplicasFromBeingElected",
		"slices.ContainsFunc(named, (*member).changesBus)", "len(named) == 0",
	},

	// RedisCluster: Each time of a schedule
	{
		"A backup that the status has, and that has no Job after a crash, is lost",
		"controller/rediscluster observed.nextBackup", "controller/rediscluster TestSyncMakesBackupsAfterEachCrash",
		`running != "" {`, `running != "" && o.jobOf(running) != nil {`,
	},
	{
		"Keys of a client are in the cluster before the restore begins",
		"controller/rediscluster restoreBackup", "controller/rediscluster TestDecideRestore",
		".Restore == nil", ".Restore != nil",
	},
	{
		"The second try of a restore chooses the latest backup again",
		"controller/rediscluster observed.desiredJob", "controller/rediscluster TestSyncRestoresABackup",
		"o.restoredBackup()", "o.Object.Spec.RestoreFrom.Backup",
	},
	{
		"A backup begins while slots move",
		"controller/rediscluster observed.whyNoBackup", "controller/rediscluster TestDecideBackups",
		"openSlots() || p.", "openSlots() && p.",
	},

	// RedisCluster: A node announces the address of its Service only after the operator has connected to the node there
	{
		"A node announces an address at which it was not reached",
		"controller/rediscluster observed.addressChanges", "controller/rediscluster TestDecideAccess",
		"ReachedAt != to:", "ReachedAt == to && to == manifest.Address{}:",
	},
	{
		"A Service is deleted while nodes announce its address",
		"controller/rediscluster serviceCommands", "controller/rediscluster TestDecideAccess",
		"isAnnounced(s) && !o.", "",
	},
	{
		"A node announces an address at which another node answers",
		"controller/rediscluster Controller.reach", "controller/rediscluster TestANodeAnnouncesWhereItWasReached",
		"view.ID != m.ID:", `view.ID == "":`,
	},
	{
		"A Service of the same name that was created meanwhile is deleted",
		"controller/rediscluster executor.deleteService", "controller/rediscluster TestServicesAreDeletedByTheirUID",
		"Preconditions{UID: &s.UID}", "Preconditions{}",
	},

	// RedisCluster: A replica asks for its data at the current address of its master
	{
		"The operator gives the slots to a replica that is connected to another node",
		"controller/rediscluster member.hasSynced", "controller/rediscluster TestAStrayReplicaDoesNotTakeOver",
		"!m.View.Stray && (m.View.Keys > 0 || m.View.Offset > 1)", "m.View.Keys > 0 || m.View.Offset > 1",
	},

	// RedisCluster: Slots are given out once
	{
		"Slots are given out that have an owner",
		"controller/rediscluster assignSlots", "controller/rediscluster TestDecideFormAndAdopt",
		".Intersect(free)", "",
	},
	{
		"A move that was begun is not continued",
		"controller/rediscluster finishMoves", "controller/rediscluster TestDecideAgreeAndOpen",
		"to); p != nil {", "to); p == nil {",
	},

	// RedisCluster: No reply of a node ends the operator
	{
		"The length of a reply does not matter",
		"redisnode replies.check", "redisnode TestRepliesOfAHostileNode",
		"; r.left < 0 {", "; false {",
	},

	// Backups: A backup has every key of every slot
	{
		"A slot without a master is left out",
		"backup arrange", "backup TestArrange",
		"missing) > 0 {", "missing) == redisnode.SlotCount {",
	},
	{
		"A change of the cluster during the backup does not matter",
		"backup backup.take", "backup TestBackupOfAClusterThatChanges",
		"!slices.ContainsFunc(t.shards, s.same)", "false",
	},

	// Backups: A backup exists if and only if its manifest does
	{
		"Other files of a backup are deleted before its manifest",
		"backup find", "backup TestTheManifestIsDeletedFirst",
		"slices.Insert(s.names, 0", "append(s.names",
	},
	{
		"A run writes its manifest over that of another run",
		"backup bucket.create", "backup TestCreateHasACondition",
		`SetMatchETagExcept("*")`, `SetMatchETagExcept("")`,
	},
	{
		"Backups of another owner are counted and deleted",
		"backup surplus", "backup TestPrune",
		"|| s.manifest.Owner != owner", "",
	},

	// Backups: Nothing of a damaged backup is restored
	{
		"The checksum of the manifest is not compared",
		"backup restore.read", "backup TestADamagedBackupRestoresNothing",
		"sum != s.SHA256 ||", "",
	},

	// Backups: A restore changes nothing that exists and no other cluster
	{
		"A key that exists is replaced",
		"backup restoreCommand", "backup TestBackupAndRestore",
		`Payload, "ABSTTL"}`, `Payload, "ABSTTL", "REPLACE"}`,
	},

	// Backups: No password and no key of S3 is in an output
	{
		"An error has what a node or a service has answered",
		"backup settings.redact", "backup TestErrorsHaveNoSecret",
		`secret, "[secret]")`, "secret, secret)",
	},

	// ECSInstance: At most one instance
	{
		"The call is made although the status could not be written: the cache is stale",
		"controller/ecsinstance action.create", "controller/ecsinstance TestCacheThatIsBehind",
		"; err != nil { return err", "; err != nil { _ = err",
	},
	{
		"The status does not say that a call with its token may have been made",
		"controller/ecsinstance nextAttempt", "controller/ecsinstance TestCreateWithoutAnAnswer",
		"if o.region() == next.RegionID { next.Parameters = parameters }", "",
	},
	{
		"Another token is used before it is certain that the last one made nothing",
		"controller/ecsinstance nextAttempt", "controller/ecsinstance TestCreateWithoutAnAnswer",
		"case clean:", "case clean || last != nil:",
	},
	{
		"An instance of an earlier attempt is not found",
		"controller/ecsinstance nextAttempt", "controller/ecsinstance TestNextAttempt",
		"return attempt{id: found[0].ID}", "",
	},

	// ECSInstance: None left behind
	{
		"The finalizer is removed before it is known what the last attempt made",
		"controller/ecsinstance releaseUncreated", "controller/ecsinstance TestDecideForDeath",
		"|| (o.creating() && !o.createRejected())", "",
	},
	{
		"The finalizer is removed without a call to delete",
		"controller/ecsinstance deleteInstance", "controller/ecsinstance TestDeathAfterEveryStep",
		`o.try(Plan{Step: stepDelete, Reason: reasonDeleting, Message: "Deleting instance " + o.ID})`,
		"&Plan{Step: stepRelease, KeepsConditions: true}",
	},

	// ECSInstance: Nothing is done in another account, nor to an instance without the tag
	{
		"A key of another account is used",
		"controller/ecsinstance refuseOtherAccount", "controller/ecsinstance TestNothingIsDoneInAnotherAccount",
		"account == o.Account", `account != "none"`,
	},
	{
		"An instance without the tag is changed",
		"controller/ecsinstance refuseOtherOwner", "controller/ecsinstance TestTagThatIsTakenOff",
		"if o.owned() {", "if o.owned() || o.Instance != nil {",
	},
	{
		"A deletion relies on the tag of the last poll",
		"controller/ecsinstance decide", "controller/ecsinstance TestTagThatChangesBeforeADeletion",
		".afterRecentPoll(o)", "",
	},

	// ECSInstance: No access key and no script is in a log, an event, a status or a trace
	{
		"What ECS repeats of a request is not replaced",
		"cloud/aliyun Error.redact", "controller/ecsinstance TestNothingSecretGetsOut",
		"replacer.Replace(e.Message", `e.Message + replacer.Replace(""`,
	},
}
