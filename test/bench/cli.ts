/**
 * `npm run bench [-- bootstrap function breaker settled scale upgrade renewal snapshot]`: what the operator costs and how long it takes,
 * beside the budgets. Figures tell of this machine at this moment; a budget that is missed is printed as such and fails nothing.
 */
import { loadavg } from 'node:os';
import { connect } from '../cluster/cluster.ts';
import { installOperator } from '../cluster/install.ts';
import { benchBootstrap, benchBreaker, benchScale, benchSettled } from './cluster.ts';
import { benchFunction, type Measurement } from './function.ts';
import { benchRenewal } from './renewal.ts';
import { benchSnapshot } from './snapshot.ts';
import { benchUpgrade } from './upgrade.ts';

const onCluster =
  (bench: () => Promise<Measurement[]>): (() => Promise<Measurement[]>) =>
  async () => {
    // With the prefix, namespaces are looked after by a runtime that somebody started for them.
    if (process.env.ETCD_OPERATOR_E2E_PREFIX === undefined) await installOperator(await connect());
    return bench();
  };

const benches: Readonly<Record<string, () => Promise<Measurement[]>>> = {
  function: benchFunction,
  bootstrap: onCluster(benchBootstrap),
  scale: onCluster(benchScale),
  upgrade: onCluster(benchUpgrade),
  renewal: onCluster(benchRenewal),
  snapshot: benchSnapshot,
  breaker: onCluster(benchBreaker),
  settled: onCluster(benchSettled),
};

const shown = (value: number): string => (Number.isInteger(value) ? String(value) : value.toFixed(2));

const asked = process.argv.slice(2);
const unknown = asked.filter((name) => !(name in benches));
if (unknown.length > 0) {
  console.error(`no bench is called ${unknown.join(', ')}; there are ${Object.keys(benches).join(', ')}`);
  process.exitCode = 1;
} else {
  for (const [name, bench] of Object.entries(benches)) {
    if (asked.length > 0 && !asked.includes(name)) continue;
    console.log(`\n== ${name} (load of the machine before: ${(loadavg()[0] ?? 0).toFixed(1)})`);
    for (const { what, value, unit, budget, atLeast } of await bench()) {
      const verdict =
        budget !== undefined
          ? `  budget ${budget} ${unit}  ${value <= budget ? 'kept' : 'MISSED'}`
          : atLeast !== undefined
            ? `  budget at least ${atLeast} ${unit}  ${value >= atLeast ? 'kept' : 'MISSED'}`
            : '';
      console.log(`${what.padEnd(58)}${`${shown(value)} ${unit}`.padStart(12)}${verdict}`);
    }
  }
  // Watches and keep-alive connections would hold the process.
  process.exit(0);
}
