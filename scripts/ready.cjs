// Runs before every npm script that needs the dependencies, on whatever Node the machine has (so: CommonJS, no types).
// A fresh clone has no node_modules; the pinned Node 24 that the scripts run on is itself one of the dependencies.
'use strict';
const { execFileSync } = require('node:child_process');
const { createHash } = require('node:crypto');
const { existsSync, lstatSync, readFileSync, writeFileSync } = require('node:fs');
const { join } = require('node:path');

const root = join(__dirname, '..');
const folder = join(root, 'node_modules');
// By content: a checkout gives the lock file any time it likes.
const stamp = join(folder, '.installed-lock');
const lock = createHash('sha256')
  .update(readFileSync(join(root, 'package-lock.json')))
  .digest('hex');
const isInstalled = () => existsSync(stamp) && readFileSync(stamp, 'utf8') === lock;
// Several worktrees may share one folder by a link. npm would empty it under everybody who works with it.
const isShared = () => existsSync(folder) && lstatSync(folder).isSymbolicLink();

if (!isInstalled() && isShared()) {
  console.log('node_modules is a link and of another package-lock.json: run npm ci where it points to');
} else if (!isInstalled()) {
  const started = Date.now();
  console.log('installing dependencies (npm ci)…');
  execFileSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], { cwd: root, stdio: 'inherit' });
  writeFileSync(stamp, lock);
  console.log(`dependencies installed in ${Math.round((Date.now() - started) / 1000)} s`);
}
