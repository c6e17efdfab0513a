/** Which versions of etcd may follow which, decided before anything moves. */

type Version = readonly [major: number, minor: number, patch: number];

const parse = (text: string): Version | undefined => {
  const found = /^(\d+)\.(\d+)\.(\d+)$/.exec(text);
  return found === null ? undefined : [Number(found[1]), Number(found[2]), Number(found[3])];
};

const compare = (a: Version, b: Version): number => a[0] - b[0] || a[1] - b[1] || a[2] - b[2];

/**
 * The lowest patch of a minor from which the next minor may be entered. 3.5: before 3.5.20 promotions of learners were not
 * written where 3.6 reads them, and up to 3.5.23 a rebuilt member can still carry that (etcd issues 19557 and 20793); a 3.6
 * member that reads it stops with "too many learners".
 */
const floors: Readonly<Record<string, number>> = { '3.5': 24 };

/**
 * The lowest patch of a minor that data may be taken back to from the next minor. A minor that is not listed has no protocol for
 * it: the server of 3.5 and before has the call and does not write its storage back. 3.5: as low as the way up again allows.
 * 3.6: before 3.6.11 it stops on what 3.7 wrote.
 */
const downgradeFloors: Readonly<Record<string, number>> = { '3.5': 24, '3.6': 11 };

/**
 * Why a cluster that runs `running` may not go to `wanted`; undefined where it may.
 *
 * `running` is one version or `lowest-highest` while members differ, as in EtcdQuorum's status; undefined before the
 * cluster has formed, when any version is as good as another.
 */
export const upgradeRefusal = (running: string | undefined, wanted: string): string | undefined => {
  if (running === undefined) return undefined;
  const to = parse(wanted);
  const versions = running.split('-').map(parse);
  if (to === undefined || versions.some((version) => version === undefined)) return undefined;
  const [lowest, highest] = (versions as Version[])
    .toSorted(compare)
    .flatMap((version, i, all) => (i === 0 || i === all.length - 1 ? [version] : []));
  if (lowest === undefined) return undefined;
  const top = highest ?? lowest;
  if (to[0] !== top[0]) {
    return `etcd ${running} runs and ${wanted} is asked for: there is no way from one major version to another; set version back to ${running}`;
  }
  if (to[1] < top[1]) {
    const asked = `etcd ${running} runs and ${wanted} is asked for`;
    const floor = downgradeFloors[`${to[0]}.${to[1]}`];
    if (to[1] < top[1] - 1) {
      return `${asked}: minor versions are left one at a time; set version to ${top[0]}.${top[1] - 1}.x or stay at ${top[0]}.${top[1]}.x`;
    }
    if (floor === undefined) {
      return `${asked}: etcd ${top[0]}.${top[1]} cannot write its data back for ${to[0]}.${to[1]}; set version to ${top[0]}.${top[1]}.x`;
    }
    if (to[2] < floor) {
      return `${asked}: from ${top[0]}.${top[1]} the way back leads to ${to[0]}.${to[1]}.${floor} or later; set version to that`;
    }
    // While members differ, the lowest has never left the minor that is asked for, or has come back to it already.
    return lowest[1] < to[1] ? `${asked}: ${lowest.join('.')} still runs; let the present change end first` : undefined;
  }
  if (to[1] > lowest[1] + 1) {
    return `etcd ${running} runs and ${wanted} is asked for: minor versions are entered one at a time; set version to ${lowest[0]}.${lowest[1] + 1}.x first`;
  }
  const floor = floors[`${lowest[0]}.${lowest[1]}`];
  if (to[1] > lowest[1] && floor !== undefined && lowest[2] < floor) {
    return `etcd ${running} runs and ${wanted} is asked for: ${to[0]}.${to[1]} is entered from ${lowest[0]}.${lowest[1]}.${floor} or later; set version to that first`;
  }
  return undefined;
};

/** `3.6` of `3.6.16`. */
export const minorOf = (version: string): string => version.split('.').slice(0, 2).join('.');

/** Below zero where `a` is the lower one; what is no version is as high as any other. */
export const compareVersions = (a: string, b: string): number => {
  const [x, y] = [parse(a), parse(b)];
  return x === undefined || y === undefined ? 0 : compare(x, y);
};

/** Below zero where the minor of `a` is the lower one. */
export const compareMinors = (a: string, b: string): number => compareVersions(`${minorOf(a)}.0`, `${minorOf(b)}.0`);

/**
 * Whether every member runs a higher minor than the one wanted: then etcd has to write its data back before anybody can run that.
 * Where one runs the wanted minor already, the data of all is as that minor writes it: they never left it, or came back.
 */
export const needsDowngrade = (running: string | undefined, wanted: string): boolean =>
  (running ?? wanted).split('-').every((version) => compareMinors(version, wanted) > 0);
