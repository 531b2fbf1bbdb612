// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rdb_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glassback/glassback/pkg/backup/rdb"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/redisnode/redistest"
)

const luaLibrary = `#!lua name=lib
redis.register_function('f', function(keys, args) return 'long enough, long enough, long enough, long enough' end)`

// TestReadsWhatAServerWrites compares a file of a real server with what its DUMP returns for each key.
func TestReadsWhatAServerWrites(t *testing.T) {
	for name, test := range map[string]struct {
		directives      []string
		idle, frequency bool
	}{
		"as it is by default": {nil, false, false},
		"eviction by LRU, and no compact encodings": {[]string{
			"maxmemory 1gb", "maxmemory-policy allkeys-lru", "hash-max-listpack-entries 2", "zset-max-listpack-entries 2",
			"set-max-intset-entries 2",
		}, true, false},
		"eviction by LFU, without compression and checksum": {
			[]string{"maxmemory 1gb", "maxmemory-policy volatile-lfu", "rdbcompression no", "rdbchecksum no"}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, path := startServer(t, test.directives)
			keys := fill(t, client)
			must.Succeed(t, client.FunctionLoad(t.Context(), luaLibrary).Err())
			must.Succeed(t, client.Save(t.Context()).Err())
			file, err := os.Open(path)
			must.Succeed(t, err)
			defer file.Close()
			var libraries []string
			for r := rdb.NewReader(file, true); ; {
				record, err := r.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				must.Succeed(t, err)
				if record.Library != "" {
					libraries = append(libraries, record.Library)
					continue
				}
				if (record.Idle >= 0) != test.idle || (record.Frequency >= 0) != test.frequency {
					t.Errorf("%.20q has the idle time %d and the frequency %d", record.Key, record.Idle, record.Frequency)
				}
				compare(t, client, record, keys[record.Key])
				delete(keys, record.Key)
			}
			if len(libraries) != 1 || libraries[0] != luaLibrary {
				t.Errorf("the libraries are %q", libraries)
			}
			if len(keys) > 0 {
				t.Errorf("the file has no record of %.20q", slices.Collect(maps.Keys(keys)))
			}
		})
	}
}

// compare compares a record with the key of the server, and restores it under another name.
func compare(t *testing.T, client *redis.Client, record *rdb.Record, expires int64) {
	t.Helper()
	dump, err := client.Dump(t.Context(), record.Key).Result()
	must.Succeed(t, err)
	if dump != string(record.Payload) {
		t.Errorf("%.20q: the payload is %.100q, DUMP returns %.100q", record.Key, record.Payload, dump)
	}
	if record.Expires != expires {
		t.Errorf("%.20q expires at %d, want %d", record.Key, record.Expires, expires)
	}
	if err := client.Restore(t.Context(), record.Key+" again", 0, string(record.Payload)).Err(); err != nil {
		t.Errorf("RESTORE of %.20q: %v", record.Key, err)
	}
}

// startServer starts a server that has all slots, and returns the path of its file.
func startServer(t *testing.T, directives []string) (*redis.Client, string) {
	t.Helper()
	s := redistest.Form(t, redistest.Config{Directives: directives}, redisnode.TLS{}, 1, 0)[0]
	client := redis.NewClient(&redis.Options{Addr: s.Address(), Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { client.Close() })
	return client, filepath.Join(s.Dir, "dump.rdb")
}

// fill writes values of all types and sizes, and returns when each key expires, in milliseconds.
func fill(t *testing.T, client *redis.Client) map[string]int64 {
	t.Helper()
	keys, ctx, later := map[string]int64{}, t.Context(), time.Now().Add(time.Hour).Truncate(time.Millisecond)
	p := client.Pipeline()
	do := func(key string, args ...any) {
		keys[key] = 0
		p.Do(ctx, append([]any{args[0], key}, args[1:]...)...)
	}
	for i, value := range []string{
		"", "a", "1", "-100", "1000", "-70000", "12345678901", strings.Repeat("a", 100), strings.Repeat("ab", 10000),
		strings.Repeat("0123456789abcdef", 5000), string([]byte{0, 1, 2, 255, 254}),
	} {
		do(fmt.Sprintf("string %d", i), "SET", value)
	}
	for _, key := range []string{"7", "-300", "100000", "", strings.Repeat("k", 70), strings.Repeat("key ", 5000)} {
		do(key, "SET", "value")
	}
	for _, size := range []int{1, 5, 700} {
		for i := range size {
			number, long := 3*i, strings.Repeat("long ", i%40)
			do(fmt.Sprintf("list %d", size), "RPUSH", number, long)
			do(fmt.Sprintf("set %d", size), "SADD", number, long)
			do(fmt.Sprintf("integers %d", size), "SADD", number, number*100000, number*10000000000)
			do(fmt.Sprintf("hash %d", size), "HSET", number, long)
			do(fmt.Sprintf("sorted %d", size), "ZADD", float64(i)/3, long, "-inf", number, "inf", fmt.Sprint("m", number))
			do(fmt.Sprintf("stream %d", size), "XADD", fmt.Sprintf("%d-%d", 1000+i, i), "field", long, "other", number)
		}
		do(fmt.Sprintf("bytes %d", size), "SETBIT", size*1000, 1)
		do(fmt.Sprintf("counter %d", size), "PFADD", size, size+1)
	}
	do("places", "GEOADD", 13.361389, 38.115556, "Palermo")
	do("empty stream", "XADD", "5-1", "a", "b")
	do("empty stream", "XDEL", "5-1")
	do("fragile", "SET", "soon gone", "PXAT", later.UnixMilli())
	keys["fragile"] = later.UnixMilli()
	_, err := p.Exec(ctx)
	must.Succeed(t, err)
	readStreams(t, client, "stream 5", "stream 700")
	for _, hash := range []string{"hash 5", "hash 700"} { // From 7.4 on, fields of a hash can expire.
		err := client.Do(ctx, "HPEXPIREAT", hash, later.UnixMilli(), "FIELDS", 2, 3, 6).Err()
		if err != nil && !strings.Contains(err.Error(), "unknown command") {
			t.Fatal(err)
		}
	}
	return keys
}

// readStreams gives streams groups, consumers, and entries that wait for an acknowledgement.
func readStreams(t *testing.T, client *redis.Client, streams ...string) {
	t.Helper()
	ctx := t.Context()
	for _, stream := range streams {
		for _, group := range []string{"one", "two", "idle"} {
			must.Succeed(t, client.XGroupCreate(ctx, stream, group, "0").Err())
		}
		for _, reader := range []string{"one a", "one b", "two a"} {
			group, consumer, _ := strings.Cut(reader, " ")
			entries, err := client.XReadGroup(ctx, &redis.XReadGroupArgs{
				Group: group, Consumer: consumer, Streams: []string{stream, ">"}, Count: 2, Block: -1,
			}).Result()
			must.Succeed(t, err)
			must.Succeed(t, client.XAck(ctx, stream, group, entries[0].Messages[0].ID).Err())
		}
		must.Succeed(t, client.XDel(ctx, stream, "1001-1").Err())
	}
}
