import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { classifyExit, type Exit, type ExitCause } from './exit-causes.ts';

const stack =
  '"stacktrace":"go.etcd.io/etcd/server/v3/etcdmain.startEtcdOrProxyV2\\n\\tgo.etcd.io/etcd/server/v3@v3.6.16/etcdmain/etcd.go:183\\nruntime.main\\n\\truntime/proc.go:290"}';
const closed =
  '{"level":"info","ts":"2026-11-30T11:39:26.949496Z","caller":"embed/etcd.go:428","msg":"closed etcd server","name":"blue-0-a","data-dir":"/var/lib/etcd/blue-0-a"}\n';
const fatal = (error: string): string =>
  `${closed}{"level":"fatal","ts":"2026-11-30T11:39:26.9Z","caller":"etcdmain/etcd.go:183","msg":"discovery failed","error":${JSON.stringify(error)},${stack}\n`;
const flags = (error: string): string =>
  `{"level":"info","ts":"2026-11-30T11:39:26.9Z","caller":"etcdmain/etcd.go:64","msg":"Running: ","args":["etcd","--config-file","/etc/etcd/etcd.yaml"]}\n{"level":"warn","ts":"2026-11-30T11:39:26.9Z","caller":"etcdmain/etcd.go:66","msg":"failed to verify flags","error":${JSON.stringify(error)}}\n`;

/** Words as etcd 3.5.35 and 3.6.16 said them, and what Kubernetes adds. `test/contract` makes them afresh. */
const cases: readonly (readonly [name: string, exit: Exit, cause: ExitCause, says: RegExp])[] = [
  [
    'a kill for memory, whatever else is in the log',
    { exitCode: 137, reason: 'OOMKilled', message: fatal('walpb: crc mismatch') },
    'OutOfMemory',
    /raise spec\.resources\.limits\.memory/,
  ],
  ['a kill from outside', { exitCode: 137, reason: 'Error', message: closed }, 'Killed', /events of the Pod/],
  ['a stop', { exitCode: 0, reason: 'Completed' }, 'Stopped', /asked to stop, or its member was removed/],
  ['a stop by signal', { exitCode: 143, reason: 'Error', signal: 15 }, 'Stopped', /asked to stop/],
  [
    'an emptied volume under a locked configuration',
    {
      exitCode: 1,
      message: fatal(
        'cannot fetch cluster info from peer urls: could not retrieve cluster information from the given URLs',
      ),
    },
    'WipedOrWalGone',
    /no write-ahead log .* keep the volume/,
  ],
  [
    'the same words with their beginning cut off, as 2048 bytes leave them',
    {
      exitCode: 1,
      message: `${closed}not fetch cluster info from peer urls: could not retrieve cluster information from the given URLs",${stack}\n{"level":"warn","msg":"failed to start etcd","error":"cannot fetch cluster info from peer urls: could not retrieve cluster information from the given URLs"}\n`,
    },
    'WipedOrWalGone',
    /keep the volume/,
  ],
  [
    'a newcomer that reaches nobody',
    { exitCode: 1, joining: true, message: fatal('cannot fetch cluster info from peer urls: could not retrieve') },
    'PeersNotReached',
    /NetworkPolicy/,
  ],
  [
    'a damaged log (3.6)',
    {
      exitCode: 1,
      message: fatal(
        "walpb: crc mismatch: expected: ab68e1fa computed: a224c97b: in file '0000000000000000-0000000000000000.wal' at position: 1648",
      ),
    },
    'WalCorrupt',
    /at position: 1648/,
  ],
  ['a damaged log (3.5)', { exitCode: 1, message: fatal('walpb: crc mismatch') }, 'WalCorrupt', /log is damaged/],
  [
    'a log without its beginning (3.5)',
    {
      exitCode: 1,
      message: `{"level":"info","msg":"No snapshot found. Recovering WAL from scratch!"}\n{"level":"fatal","caller":"etcdserver/storage.go:96","msg":"failed to open WAL","error":"wal: file not found",${stack}\n`,
    },
    'SnapshotMissing',
    /does not reach back/,
  ],
  [
    'a log without its beginning (3.6)',
    {
      exitCode: 1,
      message: `{"level":"fatal","msg":"failed to open WAL","error":"openAtIndex failed: [openAtIndex] selectWALFiles failed: wal: file not found which matches the snapshot index '0'",${stack}\n`,
    },
    'SnapshotMissing',
    /does not reach back/,
  ],
  [
    'a database that is gone',
    {
      exitCode: 2,
      message:
        'ain/main.go:40\\nmain.main"}\npanic: failed to recover v3 backend from snapshot\n\ngoroutine 1 [running]:\ngo.uber.org/zap/zapcore.CheckWriteAction.OnWrite(0x1?, 0x12f28e3?)\n\tgo.uber.org/zap@v1.27.0/zapcore/entry.go:196 +0x54\n',
    },
    'BackendMissing',
    /database file is gone/,
  ],
  [
    'a database with a broken header',
    {
      exitCode: 2,
      message: `{"level":"panic","caller":"backend/backend.go:205","msg":"failed to open database","path":"/var/lib/etcd/blue-0-a/member/snap/db","error":"invalid database",${stack}\npanic: failed to open database\n\ngoroutine 122 [running]:\n`,
    },
    'BackendCorrupt',
    /database file is damaged \("invalid database"\)/,
  ],
  [
    'a database cut short, of which only stack frames are left',
    {
      exitCode: 2,
      message:
        'goroutine 115 gp=0x38a8e5a0c000 m=nil [GC worker (idle)]:\nruntime.gopark(0x16f8c2aa4ba?)\n\truntime/proc.go:462 +0xce\ncreated by go.etcd.io/bbolt.(*DB).freepages in goroutine 129\n\tgo.etcd.io/bbolt@v1.4.3/db.go:1246 +0x1ef\n',
    },
    'SigBus',
    /beyond the end of its database/,
  ],
  ['a bus error that the kernel reports', { exitCode: 135, message: '' }, 'SigBus', /cut short/],
  [
    'a member that confirmed more than its volume holds',
    {
      exitCode: 2,
      message:
        'panic: tocommit(28) is out of range [lastIndex(0)]. Was the raft log corrupted, truncated, or lost?\n\ngoroutine 98 [running]:\n',
    },
    'RaftLogLost',
    /tocommit\(28\)/,
  ],
  [
    'data that differs',
    { exitCode: 1, message: fatal('e8c650d995a18913 found data inconsistency with peers') },
    'DataDiffers',
    /before anything is deleted/,
  ],
  [
    'a full volume',
    { exitCode: 2, message: 'panic: failed to create WAL\n\ngoroutine 1 [running]:\n' },
    'DiskFull',
    /enlarge spec\.storage\.size/,
  ],
  [
    'a volume mounted read-only',
    {
      exitCode: 1,
      message: fatal('cannot access data directory: mkdir /var/lib/etcd/blue-0-a: read-only file system'),
    },
    'DataDirUnusable',
    /read-only file system.*mounted writable/,
  ],
  [
    'an option of the wrong type',
    {
      exitCode: 1,
      message: flags(
        'error unmarshaling JSON: while decoding JSON: json: cannot unmarshal string into Go struct field configYAML.Config.quota-backend-bytes of type int64',
      ),
    },
    'WrongConfig',
    /quota-backend-bytes of type int64.*correct spec\.options/,
  ],
  [
    'an option of an unknown value',
    { exitCode: 1, message: flags('unknown auto-compaction-mode "weekly"') },
    'WrongConfig',
    /unknown auto-compaction-mode "weekly"/,
  ],
  [
    'an option that is refused late',
    { exitCode: 1, message: fatal('error parsing CompactionRetention: time: invalid duration "soon"') },
    'WrongConfig',
    /invalid duration "soon"/,
  ],
  [
    'a refusal printed without a logger',
    {
      exitCode: 1,
      message:
        'unexpected error setting up listen-client-urls: URL scheme must be http, https, unix, or unixs: nonsense\n',
    },
    'WrongConfig',
    /URL scheme must be http/,
  ],
  [
    'a refusal by panic',
    { exitCode: 2, message: 'panic: unrecognized level: "loud"\n\ngoroutine 1 [running]:\ngo.etcd.io/etcd/client\n' },
    'WrongConfig',
    /unrecognized level: "loud"/,
  ],
  [
    'a missing certificate',
    { exitCode: 1, message: fatal('open /etc/etcd/tls/tls.crt: no such file or directory') },
    'TlsFilesMissing',
    /Secrets named in spec\.tls/,
  ],
  [
    'a port in use',
    { exitCode: 1, message: fatal('listen tcp 0.0.0.0:2379: bind: address already in use') },
    'AddressInUse',
    /2379/,
  ],
  [
    'a removed member that restarts (3.6)',
    {
      exitCode: 1,
      message: `{"level":"fatal","caller":"etcdmain/etcd.go:198","msg":"listener failed","error":"server is stopping",${stack}\n`,
    },
    'RemovedMember',
    /slot gets a new member/,
  ],
  [
    'a second bootstrap',
    { exitCode: 1, message: fatal('member ef58fb142901f84e has already been bootstrapped') },
    'AlreadyBootstrapped',
    /ef58fb142901f84e/,
  ],
  [
    'a stale list with too few names',
    { exitCode: 1, message: fatal('error validating peerURLs {ClusterID:c1}: member count is unequal') },
    'MemberCountUnequal',
    /starts again with the present list/,
  ],
  [
    'a stale list with a wrong URL',
    {
      exitCode: 1,
      message: fatal(
        'error validating peerURLs {ClusterID:c1}: PeerURLs: no match found for existing member (ef58, [http://b:2380])',
      ),
    },
    'PeerURLsDiffer',
    /starts again with the present list/,
  ],
  [
    'an old version in a newer cluster',
    { exitCode: 1, message: fatal('incompatible with current running cluster') },
    'VersionTooOld',
    /set spec\.version/,
  ],
  [
    'an old version on newer data',
    {
      exitCode: 1,
      message: `{"level":"info","msg":"set initial cluster version"}\n{"level":"fatal","caller":"membership/downgrade.go:69","msg":"invalid downgrade; server version is lower than determined cluster version","current-server-version":"3.5.35","determined-cluster-version":"3.6",${stack}\n`,
    },
    'VersionTooOld',
    /server version is lower than determined cluster version/,
  ],
  [
    'a name that does not resolve',
    {
      exitCode: 1,
      message: fatal(
        '--initial-cluster has e=http://e.svc:2380 but missing from --initial-advertise-peer-urls=http://f.svc:2380 (failed to resolve "http://e.svc:2380" (lookup e.svc on 10.96.0.10:53: no such host))',
      ),
    },
    'DnsNotResolving',
    /headless Service/,
  ],
  [
    'a crash nobody has a name for',
    { exitCode: 2, message: 'panic: runtime error: index out of range [3] with length 3\n\ngoroutine 1 [running]:\n' },
    'PanicUnknown',
    /index out of range \[3\].*kubectl logs --previous/,
  ],
  ['a crash without words', { exitCode: 2, message: '' }, 'PanicUnknown', /etcd crashed;/],
  ['an end without words', { exitCode: 1 }, 'Unknown', /kubectl logs --previous/],
];

describe('the cause of an exit', () => {
  for (const [name, exit, cause, says] of cases) {
    test(`is ${cause} for ${name}`, () => {
      const classified = classifyExit(exit);
      assert.equal(classified.reason, cause);
      assert.match(classified.message, says);
    });
  }

  test('is told in one line, however long and broken etcd words are', () => {
    for (const [, exit] of cases) assert.equal(/[\r\n]/.test(classifyExit(exit).message), false);
    const endless = classifyExit({ exitCode: 2, message: `panic: ${'very '.repeat(1000)}long` });
    assert.ok(endless.message.length < 500);
  });

  test('is not taken from an earlier warning or from the configuration that etcd prints', () => {
    const earlier =
      '{"level":"info","msg":"starting an etcd server","initial-cluster-state":"crc mismatch no space left on device"}\n{"level":"warn","msg":"failed to resolve","error":"lookup b.svc: no such host"}\n';
    assert.equal(classifyExit({ exitCode: 1, message: earlier + fatal('walpb: crc mismatch') }).reason, 'WalCorrupt');
  });

  test('that leaves data in doubt never tells anybody to delete', () => {
    for (const [, exit, cause] of cases) {
      if (cause === 'WipedOrWalGone' || cause === 'DataDiffers') {
        assert.match(classifyExit(exit).message, /keep the volume|before anything is deleted/);
      }
    }
  });
});
