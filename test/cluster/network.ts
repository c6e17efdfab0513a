import { run, succeeds } from './command.ts';
import { bridge, cableName, hostAddress, type NodeName, nodeAddress, nodeNames, podSubnet } from './places.ts';

/** Marks our rules in the host's tables, so that exactly they are found again. */
const mark = 'etcd-operator-cluster';

const forwardRules = [
  ['-i', bridge],
  ['-o', bridge],
].map((match) => ['FORWARD', ...match, '-m', 'comment', '--comment', mark, '-j', 'ACCEPT']);

async function bridgeExists(): Promise<boolean> {
  return succeeds(['ip', 'link', 'show', 'dev', bridge]);
}

/**
 * The bridge that nodes are plugged into, and the host's routes to their Pods.
 * @returns what forwarding was set to before, to be given back to {@link removeBridge}
 */
export async function makeBridge(): Promise<{ forwarding: string }> {
  const forwarding = (await run(['sysctl', '-n', 'net.ipv4.ip_forward'])).trim();
  if (!(await bridgeExists())) {
    await run(['ip', 'link', 'add', bridge, 'type', 'bridge']);
    await run(['ip', 'addr', 'add', `${hostAddress}/24`, 'dev', bridge]);
    await run(['ip', 'link', 'set', bridge, 'up']);
  }
  await run(['sysctl', '-qw', 'net.ipv4.ip_forward=1']);
  // Docker and firewalls set the chain's policy to DROP; two rules of our own leave that as it is for everyone else.
  for (const rule of forwardRules) {
    if (!(await succeeds(['iptables', '-w', '-C', ...rule]))) await run(['iptables', '-w', '-I', ...rule]);
  }
  return { forwarding };
}

export async function removeBridge(before: { forwarding: string } | undefined): Promise<void> {
  for (const rule of forwardRules) {
    while (await succeeds(['iptables', '-w', '-D', ...rule]));
  }
  for (const node of nodeNames) {
    if (await succeeds(['ip', 'link', 'show', 'dev', cableName(node)]))
      await run(['ip', 'link', 'del', cableName(node)]);
  }
  // The routes go with the bridge.
  if (await bridgeExists()) await run(['ip', 'link', 'del', bridge]);
  if (before !== undefined) await run(['sysctl', '-qw', `net.ipv4.ip_forward=${before.forwarding}`]);
}

/** Plugs a node, given by a process of its network namespace, into the bridge. */
export async function plugIn(node: NodeName, member: number): Promise<void> {
  const inside = ['nsenter', '-t', String(member), '-n'];
  const cable = cableName(node);
  // What is left of a node that lost power goes with its namespace, but only some time after its last process.
  if (await succeeds(['ip', 'link', 'show', 'dev', cable])) await run(['ip', 'link', 'del', cable]);
  await run(['ip', 'link', 'add', cable, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', String(member)]);
  await run(['ip', 'link', 'set', cable, 'master', bridge, 'up']);
  const commands = [
    'link set lo up',
    `addr add ${nodeAddress(node)}/24 dev eth0`,
    'link set eth0 up',
    `route add default via ${hostAddress}`,
    ...nodeNames
      .filter((other) => other !== node)
      .map((other) => `route add ${podSubnet(other)} via ${nodeAddress(other)}`),
  ];
  await run([...inside, 'ip', '-batch', '-'], { input: `${commands.join('\n')}\n` });
  await run(['ip', 'route', 'replace', podSubnet(node), 'via', nodeAddress(node)]);
}

/** Pulls a node's cable: it reaches nothing and nothing reaches it, the API server included. */
export async function unplug(node: NodeName): Promise<void> {
  await run(['ip', 'link', 'set', cableName(node), 'down']);
}

export async function replug(node: NodeName): Promise<void> {
  await run(['ip', 'link', 'set', cableName(node), 'up']);
}

export async function isPlugged(node: NodeName): Promise<boolean> {
  const shown = await run(['ip', '-o', 'link', 'show', 'dev', cableName(node)]);
  return /[<,]UP[,>]/.test(shown);
}

function dropsFrom(other: NodeName): string[][] {
  return [nodeAddress(other), podSubnet(other)].map((source) => ['PREROUTING', '-s', source, '-j', 'DROP']);
}

/** Two nodes and one process inside each, whose network namespaces the rules are made in. */
export type Pair = readonly [{ node: NodeName; member: number }, { node: NodeName; member: number }];

/** Drops everything between two nodes and their Pods, in both directions; both still reach everybody else. */
export async function cutPair([a, b]: Pair): Promise<void> {
  await Promise.all([dropAt(a.member, b.node), dropAt(b.member, a.node)]);
}

export async function healPair([a, b]: Pair): Promise<void> {
  for (const [at, other] of [
    [a.member, b.node],
    [b.member, a.node],
  ] as const) {
    for (const rule of dropsFrom(other)) {
      while (await succeeds([...rawTable(at), '-D', ...rule]));
    }
  }
}

export async function isCut(member: number, other: NodeName): Promise<boolean> {
  const [rule = []] = dropsFrom(other);
  return succeeds([...rawTable(member), '-C', ...rule]);
}

async function dropAt(member: number, other: NodeName): Promise<void> {
  for (const rule of dropsFrom(other)) {
    if (!(await succeeds([...rawTable(member), '-C', ...rule]))) await run([...rawTable(member), '-I', ...rule]);
  }
}

/** The raw table comes before connection tracking: connections that are established already are cut too. */
function rawTable(member: number): string[] {
  // In the node's mount namespace too: the lock of iptables is a file in /run, and each node has its own.
  return ['nsenter', '-t', String(member), '-n', '-m', 'iptables', '-w', '-t', 'raw'];
}
