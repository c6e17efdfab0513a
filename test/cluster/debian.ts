import { access, constants } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { run } from './command.ts';
import { type Progress, secondsSince } from './progress.ts';

/** What the cluster uses of Debian: a file or program that shows that it is there, and the package that brings it. */
const needed: readonly { readonly shownBy: string; readonly package: string }[] = [
  { shownBy: 'containerd', package: 'containerd' },
  { shownBy: 'ctr', package: 'containerd' },
  { shownBy: 'runc', package: 'runc' },
  { shownBy: '/usr/lib/cni/bridge', package: 'containernetworking-plugins' },
  { shownBy: 'iptables', package: 'iptables' },
  { shownBy: 'docker-registry', package: 'docker-registry' },
  { shownBy: '/bin/busybox', package: 'busybox-static' },
  { shownBy: 'ip', package: 'iproute2' },
  { shownBy: 'nsenter', package: 'util-linux' },
  { shownBy: 'mount', package: 'mount' },
  { shownBy: 'openssl', package: 'openssl' },
  { shownBy: '/etc/ssl/certs/ca-certificates.crt', package: 'ca-certificates' },
];

/** Installs the Debian packages that are missing. */
export async function ensurePackages(progress: Progress): Promise<void> {
  const absent: string[] = [];
  for (const need of needed) {
    if (!(await isThere(need.shownBy)) && !absent.includes(need.package)) absent.push(need.package);
  }
  if (absent.length === 0) return;
  if (!(await isThere('apt-get'))) {
    throw new Error(
      `The local cluster needs ${absent.join(', ')}, and only knows how to install them on Debian and its kin; install them, or set KUBECONFIG to use a cluster that exists.`,
    );
  }
  const started = performance.now();
  progress(`installing Debian packages: ${absent.join(', ')}`);
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  // policy-rc.d would be the usual way to keep packages from starting their daemons; without systemd nothing is started anyway, and with
  // it a running containerd of the machine does not disturb ours, which has its own folders and socket.
  const install = ['apt-get', 'install', '-y', '--no-install-recommends', ...absent];
  try {
    await run(install, { env, timeoutMs: 600_000 });
  } catch {
    // A fresh image has no package lists, or has outdated ones.
    await run(['apt-get', 'update'], { env, timeoutMs: 300_000 });
    await run(install, { env, timeoutMs: 600_000 });
  }
  progress(`installed Debian packages in ${secondsSince(started)}`);
}

async function isThere(name: string): Promise<boolean> {
  const places = name.startsWith('/')
    ? [name]
    : [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/sbin'].map((folder) => join(folder, name));
  for (const place of places) {
    try {
      await access(place, constants.R_OK);
      return true;
    } catch {
      // The next place may have it.
    }
  }
  return false;
}
