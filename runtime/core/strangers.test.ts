import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { listedIncarnation } from './strangers.ts';

const here = { cluster: 'demo', namespace: 'shop' };
const URL = 'http://demo-7-abcde.demo.shop.svc:2380';
const listed = (peerURLs: readonly string[], name = '') =>
  listedIncarnation(here, { id: 'a1', name, peerURLs, clientURLs: [], isLearner: true });

describe('a listed member can be one of this cluster', () => {
  const own = { member: 'demo-7', token: 'abcde', name: 'demo-7-abcde' };
  for (const [what, urls, name] of [
    ['before it has ever started, by its URL', [URL], ''],
    ['once it has started, by its name as well', [URL], 'demo-7-abcde'],
    ['in a cluster with TLS', [URL.replace('http', 'https')], ''],
  ] as const) {
    test(what, () => assert.deepEqual(listed(urls, name), own));
  }
});

describe('a listed member is not taken for one of this cluster', () => {
  for (const [what, urls, name] of [
    ['under the service of another cluster', ['http://demo-7-abcde.other.shop.svc:2380'], ''],
    ['in another namespace', ['http://demo-7-abcde.demo.bank.svc:2380'], ''],
    ['at another port', ['http://demo-7-abcde.demo.shop.svc:9999'], ''],
    ['behind a longer name', ['http://demo-7-abcde.demo.shop.svc.example.com:2380'], ''],
    ['as a slot that no cluster has', ['http://demo-x-abcde.demo.shop.svc:2380'], ''],
    ['with a token that is none', ['http://demo-7-abc.demo.shop.svc:2380'], ''],
    ['with a second URL, which may lead elsewhere', [URL, 'http://10.0.0.1:2380'], ''],
    ['that runs under another name', [URL], 'mine'],
    ['without any URL', [], 'demo-7-abcde'],
  ] as const) {
    test(what, () => assert.equal(listed(urls, name), undefined));
  }
});
