/** Which certificate is shown at an address, whoever it is of and whoever trusts it. */
export type Handshake = (
  address: { readonly host: string; readonly port: number; readonly serverName: string },
  options: { readonly signal: AbortSignal; readonly deadlineMs: number },
) => Promise<string>;
