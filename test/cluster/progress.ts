/** Receives one line of progress for a person to read. */
export type Progress = (line: string) => void;

/** Progress on standard error, so that a command's own output can be piped. */
export const toStderr: Progress = (line) => {
  process.stderr.write(`${line}\n`);
};

/** Seconds since `started` (milliseconds of `performance.now()`), for a person. */
export function secondsSince(started: number): string {
  const seconds = (performance.now() - started) / 1000;
  return seconds < 10 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds)} s`;
}
