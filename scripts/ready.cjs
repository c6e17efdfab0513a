// Runs before every npm script that needs the dependencies, on whatever Node the machine has (so: CommonJS, no types).
// A fresh clone has no node_modules; the pinned Node 24 that the scripts run on is itself one of the dependencies.
'use strict';
const { execFileSync } = require('node:child_process');
const { existsSync, statSync } = require('node:fs');
const { join } = require('node:path');

const root = join(__dirname, '..');
const installed = join(root, 'node_modules', '.package-lock.json');
const lock = join(root, 'package-lock.json');

if (!existsSync(installed) || statSync(installed).mtimeMs < statSync(lock).mtimeMs) {
  const started = Date.now();
  console.log('installing dependencies (npm ci)…');
  execFileSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], { cwd: root, stdio: 'inherit' });
  console.log(`dependencies installed in ${Math.round((Date.now() - started) / 1000)} s`);
}
