/** Label selectors as the API server's query parameter spells them, evaluated here for objects that come by another way. */

type Requirement = (labels: Readonly<Record<string, string>>) => boolean;

const key = '[A-Za-z0-9][A-Za-z0-9._/-]*';
const setBased = new RegExp(`^(${key})\\s+(in|notin)\\s*\\(([^()]*)\\)$`);
const equality = new RegExp(`^(${key})\\s*(==|=|!=)\\s*([A-Za-z0-9._-]*)$`);
const existence = new RegExp(`^(!?)\\s*(${key})$`);

const requirement = (term: string): Requirement => {
  const inSet = setBased.exec(term);
  if (inSet !== null) {
    const [, name = '', operator, list = ''] = inSet;
    const values = new Set(list.split(',').map((value) => value.trim()));
    return operator === 'in'
      ? (labels) => labels[name] !== undefined && values.has(labels[name])
      : (labels) => labels[name] === undefined || !values.has(labels[name]);
  }
  const equal = equality.exec(term);
  if (equal !== null) {
    const [, name = '', operator, value = ''] = equal;
    return operator === '!=' ? (labels) => labels[name] !== value : (labels) => labels[name] === value;
  }
  const exists = existence.exec(term);
  if (exists !== null) {
    const [, not, name = ''] = exists;
    return not === '!' ? (labels) => labels[name] === undefined : (labels) => labels[name] !== undefined;
  }
  throw new Error(
    `label selector: "${term}" is none of key, !key, key=value, key!=value, key in (a,b), key notin (a,b)`,
  );
};

/** Parses once; the result says whether labels match. An absent or empty selector matches everything. */
export const labelSelector = (selector: string | undefined): ((labels?: Record<string, string>) => boolean) => {
  const terms = (selector ?? '')
    // Commas inside parentheses belong to the set.
    .split(/,(?![^(]*\))/)
    .map((term) => term.trim())
    .filter((term) => term !== '')
    .map(requirement);
  return (labels = {}) => terms.every((holds) => holds(labels));
};
