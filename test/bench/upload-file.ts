/** What a person would use after `etcdctl snapshot save`: the SDK's own upload of a file, as it is set up by default. */
import { createReadStream } from 'node:fs';
import { S3Client } from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';

const [file, endpoint, Bucket, Key] = process.argv.slice(2);
if (file === undefined || endpoint === undefined || Bucket === undefined || Key === undefined) {
  throw new TypeError('usage: upload-file.ts <file> <endpoint> <bucket> <key>');
}
const client = new S3Client({ endpoint, region: 'us-east-1', forcePathStyle: true });
await new Upload({ client, params: { Bucket, Key, Body: createReadStream(file) } }).done();
client.destroy();
