/**
 * Parts of prom-client that are loaded one by one: the whole of it brings a push client and a cluster mode along, which
 * nobody here uses and which cost this server 10 MB and 30 ms at each start.
 */
declare module 'prom-client/lib/registry.js' {
  import { Registry } from 'prom-client';
  export default Registry;
}
declare module 'prom-client/lib/counter.js' {
  import { Counter } from 'prom-client';
  export default Counter;
}
declare module 'prom-client/lib/gauge.js' {
  import { Gauge } from 'prom-client';
  export default Gauge;
}
declare module 'prom-client/lib/histogram.js' {
  import { Histogram } from 'prom-client';
  export default Histogram;
}
declare module 'prom-client/lib/metrics/*' {
  import type { Registry } from 'prom-client';

  const register: (registry: Registry) => void;
  export default register;
}
